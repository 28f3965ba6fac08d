"""Dashboards of Grafana, made from tables: `python -m docs.dashboards` writes them anew.

`tables` has the queries of each panel, `boards` gives them the form of Grafana. A test says when a
file of `config/grafana` is old.
"""
