"""`onceward dev`: servers, topics, journal, a worker and a resender by one command, for a laptop.

`commands` reads the command line. `session_plan`, pure, decides the settings that nobody named and
the commands that are shown. `backing` finds Kafka and Redis at the addresses of the settings, or
starts them there with their data in `.onceward` (`claims` keeps two sessions apart). `dev_session`
runs the worker and the resender as processes (`member`), shows their logs (`output`), and starts
the worker anew when a file changes.

Decisions, and their cost:

- The ports are those of the settings, so that a client needs no others. Without settings they are
  Kafka's and Redis' own. A server that answers there is taken as it is.
- Members are the commands that a user would run. They have a pseudo-terminal each, so that they log
  for a person; it costs their second output, both are one stream.
- A signal raises `SessionEnded` wherever the session is. A process that was forked at that moment
  has a death signal, as all have: the kernel ends it with us.
- Files are looked at twice a second. A watch by inotify would be one more dependency.
- After SIGKILL of the session the keeper stops the servers, and the kernel kills the members.
"""
