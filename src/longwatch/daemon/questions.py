"""What the API process asks, put to the supervisor and answered: each once, with a bound on how many wait."""

from longwatch.daemon.asking import FAILED, NOT_NOW, USAGE, Caller, Later, Refusal
from longwatch.daemon.deliveries import Deliveries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Answer = dict[str, Any]
    Ask = Callable[[str, Answer, Caller], Answer | Later]

#: How many questions may wait for their answer: each may hold a client's connection open.
MOST = 512


class Questions:
    """Puts questions to `ask` and hands each answer to `send`. Nothing that `ask` raises gets further than here."""

    __slots__ = ("_ask", "_clock", "_deliveries", "_log", "_open", "asked")

    def __init__(
        self, ask: "Ask", clock: "Callable[[], int]", log: "Callable[[str], object]",
        deliveries: Deliveries | None = None,
    ) -> None:  # fmt: skip
        self._ask = ask
        self._clock = clock
        self._log = log
        self._open: dict[int, Later] = {}
        self._deliveries = deliveries or Deliveries()
        #: How many there have been.
        self.asked = 0

    def put(self, message: "Answer", send: "Callable[[Answer], object]") -> None:
        """Ask what a message says; `send` gets the answer, now or later."""
        number = message.get("id")
        if not isinstance(number, int):
            return
        self.asked += 1

        def answer(good: "Answer | None", refusal: Refusal | None) -> None:
            self._open.pop(number, None)
            send(
                {"id": number, "ok": good} if refusal is None else {"id": number, "error": refusal.as_dict()}
            )

        try:
            found = self._answered(message)
        except Refusal as refusal:
            answer(None, refusal)
        except Exception as error:  # noqa: BLE001 - whatever it is, the supervisor goes on
            self._log(f"a defect while answering {message.get('op')}: {type(error).__name__}: {error}")
            answer(None, Refusal(FAILED, f"a defect of longwatch: {type(error).__name__}: {error}"))
        else:
            if isinstance(found, Later):
                self._open[number] = found
                found.then(answer)
            else:
                answer(found, None)

    def cancel(self, number: object) -> None:
        """The client of a question is gone."""
        later = self._open.pop(number, None) if isinstance(number, int) else None
        if later is not None:
            later.cancel()

    def drop(self) -> None:
        """All clients are gone: the API process is."""
        for number in list(self._open):
            self.cancel(number)

    def _answered(self, message: "Answer") -> "Answer | Later":
        op, args = message.get("op"), message.get("args")
        if not (isinstance(op, str) and isinstance(args, dict)):
            raise Refusal(USAGE, "this question cannot be read")
        if len(self._open) >= MOST:
            raise Refusal(
                NOT_NOW, f"{MOST} questions wait for their answer; ask again when some are answered"
            )
        caller = _caller(message.get("by"))
        if op == "trigger" and isinstance(args.get("delivery"), str):
            return self._delivered(args, caller)
        return self._ask(op, args, caller)

    def _delivered(self, args: "Answer", caller: Caller) -> "Answer | Later":
        """Fire by a delivery that has not been seen; one that comes to nothing may be sent again.

        Whoever is told that it was taken in is told so when no later daemon will fire by it again.
        """
        key = (str(args.get("name")), str(args.get("trigger")), args["delivery"])
        if self._deliveries.known(*key, self._clock()):
            return {"name": key[0], "run": None, "queued": False, "duplicate": True}

        kept = Later()

        def told(answer: "Answer | None", refusal: Refusal | None) -> None:
            if answer is not None:
                self._deliveries.settled(lambda: kept.give(answer))
            elif refusal is not None:
                self._deliveries.forget(*key)
                kept.refuse(refusal)

        try:
            found = self._ask("trigger", args, caller)
        except BaseException:
            self._deliveries.forget(*key)
            raise
        if isinstance(found, Later):
            kept.on_cancel(found.cancel)
            found.then(told)
        else:
            told(found, None)
        return kept


def _caller(told: object) -> Caller:
    found = told if isinstance(told, dict) else {}
    return Caller(found.get("pid"), found.get("uid"), str(found.get("via")))
