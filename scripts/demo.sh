#!/bin/sh
# A lively command and a stuck one, both under an idle limit of three seconds (`make demo`).
say() { printf '\n%s\n' "$*"; }

say '1. A command that goes on printing may take as long as it likes: six seconds under a limit of three.'
say '$ longwatch run --idle 3s -- sh -c "..."'
longwatch run --idle 3s -- sh -c 'for step in 1 2 3 4 5 6; do echo "step $step"; sleep 1; done'
lively=$?
say "It ended by itself, with status $lively."

say '2. This one starts a helper that waits for ever, in a session of its own, and is silent from then on.'
say '$ longwatch run --idle 3s --name stuck -- sh -c "..."'
longwatch run --idle 3s --name stuck -- sh -c 'echo "looking for an answer"; setsid tail -f /dev/null & wait'
stuck=$?
say "longwatch ended with status $stuck; nothing of the command is left."

if [ $lively -ne 0 ] || [ $stuck -ne 124 ]; then
    say "That is not what this demo should show (0 and 124 were expected, not $lively and $stuck)."
    exit 1
fi

say '3. What happened can be asked at any time afterwards.'
say '$ longwatch why'
longwatch why
