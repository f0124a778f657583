"""Public helpers for testing supervision: a fake clock, playbooks, scripted children.

from longwatch.testing import Playbook, children

book = Playbook(Spec({"idle": LimitSpec(5_000)}, held=("output",)), ignore=(LimitNoted,))
book.tell(1_000, ProgressSeen("output"))
book.expect(6_000, like(LimitFired, limit="idle"), like(Notify), CapturePostMortem("idle"))
book.play()
"""

from longwatch.testing import children
from longwatch.testing.clock import FakeClock
from longwatch.testing.playbook import Like, Playbook, like

__all__ = ["FakeClock", "Like", "Playbook", "children", "like"]
