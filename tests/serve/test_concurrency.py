"""Turns for what runs long."""

from __future__ import annotations

import anyio
import pytest

from metier.serve.mcp.concurrency import MAX_ALONE, MAX_EACH, MAX_RUNNING, ConcurrencyLimit, ServerBusy


def test_one_conversation_cannot_take_all_turns() -> None:
    async def main() -> None:
        turns = ConcurrencyLimit(seconds=0.05)
        going = 0

        async def run(key: str) -> None:
            nonlocal going
            async with turns.of(key):
                going += 1
                await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            for key, most in (("a", MAX_EACH), ("", MAX_ALONE)):
                before = going
                for _ in range(most):
                    tasks.start_soon(run, key)
                while going < before + most:
                    await anyio.sleep(0)
                with pytest.raises(ServerBusy):
                    await run(key)
            with anyio.fail_after(5):
                async with turns.of("b"):
                    pass
            tasks.cancel_scope.cancel()

    anyio.run(main)


def test_all_together_are_bounded_and_whoever_waits_gets_a_turn() -> None:
    async def main() -> None:
        turns, most, going = ConcurrencyLimit(), 0, 0

        async def run(key: str) -> None:
            nonlocal most, going
            async with turns.of(key):
                going += 1
                most = max(most, going)
                await anyio.sleep(0.001)
                going -= 1

        async with anyio.create_task_group() as tasks:
            for number in range(4 * MAX_RUNNING):
                tasks.start_soon(run, f"key-{number % 32}")
        assert (most, going) == (MAX_RUNNING, 0)

    anyio.run(main)
