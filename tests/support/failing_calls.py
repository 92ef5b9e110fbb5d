"""Makes one method or property of an engine's object fail when the test switches the fault on."""

import inspect
from typing import Any


class FailingCall:
    """Makes `thing.name` raise `error` at its call number `at`, from 1, and at each one after it until `heal`.

    calls: so many there were. failures: of these, so many failed. is_late: the call does its work first, then raises.
    """

    def __init__(self, thing: object, name: str, error: Exception, *, at: int = 1, is_late: bool = False) -> None:
        self.calls = 0
        self.failures = 0
        self._error = error
        self._at = at
        self._is_late = is_late
        self._is_healed = False
        whole = type(thing)
        kept = getattr(whole, name, None)
        own: dict[str, Any] = getattr(thing, "__dict__", {})
        if (name in own or inspect.ismemberdescriptor(kept)) and callable(getattr(thing, name)):
            setattr(thing, name, self._wrapped(getattr(thing, name)))
            return
        if name in own:
            replaced: Any = property(
                self._wrapped(lambda one: vars(one)[name]), lambda one, value: vars(one).__setitem__(name, value)
            )
        elif inspect.ismemberdescriptor(kept):
            replaced = property(self._wrapped(kept.__get__), kept.__set__)
        elif isinstance(kept, property):
            assert kept.fget is not None
            replaced = property(self._wrapped(kept.fget))
        else:
            replaced = self._wrapped(kept)
        # A class of its own: others of the same kind go on to work. An object with slots alone gets no dict.
        slots: dict[str, Any] = {} if hasattr(thing, "__dict__") else {"__slots__": ()}
        thing.__class__ = type(f"Failing{whole.__name__}", (whole,), {name: replaced, **slots})

    def _wrapped(self, work: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            fails = self.calls >= self._at and not self._is_healed
            if fails and not self._is_late:
                self._fail()
            done = work(*args, **kwargs)
            if fails:
                self._fail()
            return done

        return call

    def _fail(self) -> None:
        self.failures += 1
        raise type(self._error)(*self._error.args)

    def heal(self) -> None:
        self._is_healed = True
