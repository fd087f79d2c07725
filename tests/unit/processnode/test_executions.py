"""What a command in a container is given to read."""

import asyncio
import os
import tty

from lab.processnode import executions


async def test_a_terminal_gets_all_that_is_pasted_into_it():
    """More than it holds at once, and although its other direction is read without waiting."""
    streams = executions.Streams(stdin=True, terminal=True)
    command = os.dup(streams.given[0])
    tty.setraw(command)
    os.set_blocking(streams.terminal, False)
    pasted = b"a line of text\n" * 4000

    writing = asyncio.create_task(asyncio.to_thread(streams.write, pasted))
    taken = b""
    while len(taken) < len(pasted):
        taken += await asyncio.to_thread(os.read, command, 65536)
    await writing

    assert pasted == taken
    os.close(command)
    streams.close()


async def test_a_command_that_ends_takes_no_more():
    """Whoever types on is not kept waiting."""
    streams = executions.Streams(stdin=True, terminal=False)
    streams.hand_over()

    async with asyncio.timeout(5):
        await asyncio.to_thread(streams.write, b"x" * 10**6)

    streams.close()
