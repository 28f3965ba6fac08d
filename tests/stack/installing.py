"""What each kind of server needs on this machine, and getting what is missing."""

from collections.abc import Iterable

from onceward.servers.jars import fetch_jars, jars_folder
from tests.kit.packages import install_missing
from tests.stack.s3 import fetch_s3proxy, s3proxy_folder
from tests.stack.toxiproxy_build import build_toxiproxy, toxiproxy_program

# Beside the stack's own kinds: started by tests of links, poolers, buckets, pages, metrics alone.
FOR_TESTS = ("toxiproxy", "pgbouncer", "s3", "certificates", "browser", "prometheus")
_PROGRAMS = {
    "kafka": ("java",),
    "redis": ("redis-server",),
    "postgres": ("initdb", "postgres"),
    "toxiproxy": (),
    "pgbouncer": ("pgbouncer",),
    "certificates": ("openssl",),
    "s3": ("java",),
    "browser": ("chromium", "chromedriver"),
    "prometheus": ("prometheus", "promtool"),
}


def install(kinds: Iterable[str]) -> list[str]:
    """Install, fetch and build what these kinds of server need and do not have; say what that was.

    Raises:
        StackError: something cannot be had; the message says what to do.
    """
    wanted = set(kinds)
    programs = [name for kind in wanted for name in _PROGRAMS[kind]]
    if "kafka" in wanted and not jars_folder().is_dir():
        programs.append("mvn")
    if "s3" in wanted and not s3proxy_folder().is_dir():
        programs.append("mvn")
    if "toxiproxy" in wanted and not toxiproxy_program().exists():
        programs.append("go")
    done = install_missing(programs)
    if "kafka" in wanted and fetch_jars():
        done.append(str(jars_folder()))
    if "s3" in wanted and fetch_s3proxy():
        done.append(str(s3proxy_folder()))
    if "toxiproxy" in wanted and build_toxiproxy():
        done.append(str(toxiproxy_program()))
    return done
