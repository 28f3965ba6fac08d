"""The app's name and label."""

from django.apps import AppConfig


class OncewardConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """The app `onceward`."""

    name = "onceward.django"
    label = "onceward"
    verbose_name = "Onceward"
