"""DECIDES. Pure: no os, time, datetime, asyncio, threads, logging, random.

A `Watch` is told observations, holds a few limits and answers with commands. Time is integer milliseconds
on a monotonic clock that counts sleep, and always an argument.
"""
