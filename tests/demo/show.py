"""The show: payments watched to their end, workers killed by plan, and what happens told."""

from feedback.clock import monotonic_s
from tests.demo.cut import Cut
from tests.demo.payments import Payments
from tests.demo.plan import Plan
from tests.demo.story import Story
from tests.demo.view import View, line, panel
from tests.demo.workers import Workers
from tests.kit.screen import Screen

TICK_S = 0.25
# Looking at every payment under way costs CPU that the workers on this machine want.
LOOK_SHARE = 0.1


class Show:
    """One run from the first payment to the last client that is told."""

    def __init__(
        self,
        payments: Payments,
        workers: Workers,
        *,
        screen: Screen,
        plan: Plan,
        cut: Cut | None = None,
    ) -> None:
        self._cut = cut
        self._payments = payments
        self._workers = workers
        self._screen = screen
        self._plan = plan
        self._story = Story()
        self._kills = 0
        self._last_kill_s = 0.0
        self._look_s = 0.0

    def run(self) -> None:
        """Return when every client was told, or gave up, and every killed worker is alive again.

        Raises:
            WorkerEnded: a worker ended that nobody killed.
            NotAvailable: a worker has no heartbeat long after it was started again.
        """
        self._payments.start()
        while not self._payments.finished.wait(TICK_S):
            self._see_after_workers()
            self._kill_if_due()
            self._cut_if_due()
            if monotonic_s() >= self._look_s:
                self._look()
        # A fast one has done all before the other one is there.
        self._workers.await_alive(self._see_after_workers)
        self._look()
        if not self._kills:
            self._screen.say("no worker was killed: all were told before it was due", style="red")

    def _see_after_workers(self) -> None:
        for worker in self._workers.look():
            self._screen.say(f"{worker.name} is alive again, as pid {worker.pid}", style="green")

    def _kill_if_due(self) -> None:
        if self._cut is not None and self._cut.is_on:
            return
        now_s = monotonic_s()
        if self._plan.is_due(
            kills=self._kills,
            told=len(self._payments.told),
            sending=self._payments.sending,
            since_last_s=now_s - self._last_kill_s,
        ):
            killed = self._workers.kill(self._plan.victim(self._kills))
            self._kills += 1
            self._last_kill_s = now_s
            self._screen.say(
                f"{killed.name} KILLED by SIGKILL (pid {killed.pid}), and started again",
                style="bold red",
            )

    def _cut_if_due(self) -> None:
        if self._cut is None:
            return
        if self._plan.is_cut_due(begun=self._payments.begun):
            self._cut.begin()
        for sentence in self._cut.news():
            self._screen.say(sentence, style="bold red" if self._cut.is_on else "green")

    def _look(self) -> None:
        began_s = monotonic_s()
        progress = self._payments.progress()
        for sentence in self._story.notice(progress):
            self._screen.say(sentence)
        view = View(self._screen.elapsed_s, progress, tuple(self._workers.all))
        picture = panel(view, width=self._screen.width)
        self._screen.show(picture, line=line(view), at_s=view.elapsed_s)
        ended_s = monotonic_s()
        self._look_s = ended_s + (ended_s - began_s) / LOOK_SHARE
