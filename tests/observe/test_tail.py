"""Following a file: whatever happens to it, each whole line comes once; and finding the newest of something in it."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.observe import tail as tails
from longwatch.observe.tail import Tail, last_time

LONG = 3_000_000


@pytest.fixture
def path(tmp_path):
    """Return the path of a transcript that is not there yet."""
    return tmp_path / "session.jsonl"


@pytest.fixture
def tail(path):
    """Follow it, and leave no descriptor behind."""
    made = Tail(str(path))
    yield made
    made.close()


def append(path, text):
    """Write to the end of a file as an agent does: open, write, close."""
    with open(path, "ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def seen(tail):
    """Return what a look gives, without the offsets."""
    return [line.decode() for _, line in tail.read()]


# Growing


def test_no_file_yet(tail, path):
    """A file that is not there yet is said so at each look, and read from its beginning when it is."""
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match=r"session\.jsonl"):
            seen(tail)
    assert tail.mark is None
    append(path, "one\n")
    assert seen(tail) == ["one"]


def test_only_what_is_new(tail, path):
    """A look gives what was appended since the last one, with the offset of each line."""
    append(path, "one\ntwo\n")
    assert list(tail.read()) == [(0, b"one"), (4, b"two")]
    assert seen(tail) == []
    append(path, "three\n")
    assert list(tail.read()) == [(8, b"three")]


@pytest.mark.capability("OBS-10")
@pytest.mark.fault("M1")
def test_half_a_record(tail, path):
    """A record that comes in pieces, cut within a character, comes once and whole."""
    record = "half of it \N{GREEK SMALL LETTER ALPHA}".encode()
    for piece in (record[:4], record[4:-1]):
        append(path, piece)
        assert seen(tail) == []
    append(path, record[-1:] + b"\nnext")
    assert seen(tail) == [record.decode()]
    append(path, "\n")
    assert seen(tail) == ["next"]


@pytest.mark.capability("OBS-10")
@pytest.mark.fault("M5")
def test_zero_bytes_and_blank_lines(tail, path):
    """What a crash leaves where a file was extended and never written is no line, and hides none."""
    append(path, b"\0" * 100 + b"\n" + b"\0" * 7 + b"one\n\n  \ntwo\n")
    assert list(tail.read()) == [(108, b"one"), (116, b"two")]


@pytest.mark.capability("OBS-10")
def test_a_long_line(tail, path):
    """Of a line of megabytes both ends come; the next one is whole, and begins where it begins."""
    append(path, b'{"type":"image"' + b"x" * LONG)
    assert seen(tail) == []
    append(path, '"end"}\nnext\n')
    (_, line), (pos, following) = tail.read()
    assert line.startswith(b'{"type":"image"')
    assert line.endswith(b'"end"}')
    assert len(line) < LONG // 10
    assert (pos, following) == (LONG + 22, b"next")


def test_a_look_takes_so_much(tail, path):
    """Of a file that is far ahead each look takes a part, and says that there is more."""
    append(path, b"".join(b"%06d\n" % number for number in range(100_000)))
    pieces = [list(tail.read(most=1))]
    while tail.behind:
        pieces.append(list(tail.read(most=1)))
    assert len(pieces) > 2
    assert [int(line) for piece in pieces for _, line in piece] == list(range(100_000))


# What may happen to a file


def shorten(path):
    """Cut the file and write it anew, shorter than before."""
    path.write_text("new\n")


def rewrite(path):
    """Cut the file and write it anew, at the very length it had."""
    path.write_text("own\ntoo\n")


def outgrow(path):
    """Cut the file and write more than there was, before anybody looks."""
    path.write_text("new\nand\nmuch\nlonger\n")


def rotate(path):
    """Rename the file, write its last record under the new name, and begin another."""
    path.rename(f"{path}.1")
    append(f"{path}.1", "last\n")
    append(path, "new\n")


def recreate(path):
    """Delete the file and begin another, that may get the inode of the old one."""
    path.unlink()
    append(path, "new\n")


def replace(path):
    """Put another file in its place, as editors and migrations do."""
    Path(f"{path}.tmp").write_text("new\n")
    os.replace(f"{path}.tmp", path)


CHANGES = {
    shorten: ["new"],
    rewrite: ["own", "too"],
    outgrow: ["new", "and", "much", "longer"],
    rotate: ["last", "new"],
    recreate: ["new"],
    replace: ["new"],
}


@pytest.mark.capability("OBS-10")
@pytest.mark.fault("M3")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_file_that_changes(tail, path, change):
    """After each kind of change the lines on both sides of it come, each once."""
    append(path, "one\ntwo\n")
    assert seen(tail) == ["one", "two"]
    change(path)
    assert seen(tail) == CHANGES[change]
    append(path, "after\n")
    assert seen(tail) == ["after"]


@pytest.mark.fault("M3")
def test_a_renamed_file_whose_writer_does_not_know(tail, path):
    """While the new file is empty the old one is followed; then it is finished first."""
    append(path, "one\n")
    assert seen(tail) == ["one"]
    path.rename(f"{path}.1")
    path.touch()
    append(f"{path}.1", "two\n")
    assert seen(tail) == ["two"]
    path.unlink()
    path.touch()
    append(f"{path}.1", "three\n")
    append(path, "four\n")
    assert seen(tail) == ["three", "four"]


def test_a_renamed_file_that_is_far_ahead(tail, path):
    """A file that was renamed is read to its end before the one in its place, also over several looks."""
    lines = [str(number) for number in range(200_000)]
    append(path, "\n".join(lines) + "\n")
    first = [line.decode() for _, line in tail.read(most=1)]
    path.rename(f"{path}.1")
    append(path, "new\n")
    while first[-1] != "new":
        first += [line.decode() for _, line in tail.read(most=1)]
    assert first == [*lines, "new"]


def test_a_deleted_file(tail, path):
    """A file that is gone is said to be gone, unless its writer still writes to it."""
    append(path, "one\n")
    assert seen(tail) == ["one"]
    with open(path, "ab", buffering=0) as writer:
        path.unlink()
        writer.write(b"two\n")
        lines = tail.read()
        assert next(lines) == (4, b"two")
        assert list(lines) == []
        with pytest.raises(FileNotFoundError):
            seen(tail)
        writer.write(b"three\n")
        assert seen(tail) == ["three"]
    append(path, "new\n")
    assert seen(tail) == ["new"]


def test_the_folder_is_gone(tail, path):
    """A path that leads nowhere any more is a file that is gone."""
    with pytest.raises(FileNotFoundError):
        list(Tail(f"{path}/deeper").read())
    path.touch()
    with pytest.raises(FileNotFoundError):
        list(Tail(f"{path}/deeper").read())


def test_what_is_no_file(tmp_path):
    """A folder, or a pipe that nobody writes, is an error and no endless wait."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        tail = Tail(str(path))
        with pytest.raises(OSError, match=r"Is a directory|Illegal seek"):
            list(tail.read())
        tail.close()


def test_a_server_that_forgot(tail, path, monkeypatch):
    """Where the server of a network file system forgot the old file, the new one is read; else it is an error."""
    append(path, "one\n")
    assert seen(tail) == ["one"]
    old, pread = os.stat(path).st_ino, os.pread

    def stale(descriptor, size, offset):
        if os.fstat(descriptor).st_ino == old:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", stale)
    with pytest.raises(OSError, match="Stale"):
        seen(tail)
    append(f"{path}.tmp", "new\n")
    os.replace(f"{path}.tmp", path)
    assert seen(tail) == ["new"]


@pytest.mark.fault("M3")
def test_an_unfinished_line_taken_back(tail, path):
    """A torn last line that its writer cuts off costs nothing: what was read before it does not come again."""
    append(path, "one\ntwo\ntorn")
    assert seen(tail) == ["one", "two"]
    os.truncate(path, 8)
    append(path, "three\n")
    assert seen(tail) == ["three"]
    append(path, "to")
    assert seen(tail) == []
    os.truncate(path, 14)
    assert seen(tail) == []
    append(path, "four\n")
    assert seen(tail) == ["four"]


def test_a_look_that_is_broken_off(tail, path):
    """Whoever does not read a look to its end loses no later line, and gets none twice."""
    append(path, "one\ntwo\n")
    for line in tail.read():
        assert line == (0, b"one")
        break
    append(path, "three\n")
    assert seen(tail)[-1] == "three"


# Going on later


def resumed(path, mark):
    """Return what another process reads, given the mark of this one."""
    tail = Tail(str(path), mark)
    lines = seen(tail)
    tail.close()
    return lines


@pytest.mark.capability("OBS-10")
def test_going_on_later(tail, path):
    """Another process goes on at the byte after the last whole line, and reads the unfinished one whole."""
    append(path, "one\ntwo\nhal")
    assert seen(tail) == ["one", "two"]
    append(path, "f\nthree\n")
    assert tail.mark.offset == 8
    assert resumed(path, tail.mark) == ["half", "three"]
    tail.close()
    assert seen(tail) == ["half", "three"]


@pytest.mark.fault("M3")
@pytest.mark.parametrize("change", [shorten, rewrite, outgrow, recreate], ids=lambda change: change.__name__)
def test_a_mark_of_another_file(tail, path, change):
    """A mark that does not fit what is there now means the beginning, also where inode and length are the same."""
    append(path, "one\ntwo\n")
    assert seen(tail) == ["one", "two"]
    change(path)
    assert resumed(path, tail.mark) == CHANGES[change]


def test_a_mark_by_size_alone(path):
    """A mark without proof, as a look at a folder gives it, holds as long as the file is no shorter."""
    append(path, "one\n")
    mark = tails.Mark(os.stat(path).st_ino, 4)
    append(path, "two\n")
    assert resumed(path, mark) == ["two"]
    assert resumed(path, tails.Mark(mark.inode + 1, 4)) == ["one", "two"]
    path.write_text("x\n")
    assert resumed(path, mark) == ["x"]
    assert mark == tails.Mark(mark.inode, 4)


# Anything may happen, in any order

PIECES = st.lists(st.integers(1, 40), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PIECES, st.sampled_from([0, 1, 30, 500, 300_000])),
        st.sampled_from(["look", "truncate", "rotate", "delete", "replace", "mark"]),
    ),
    max_size=30,
)


class Writer:
    """Writes numbered records to a file, and does to it what happens to files."""

    def __init__(self, path):
        self.path = path
        self.written = []
        self.renamed = 0

    def write(self, pieces, size, look):
        """Write one record in pieces, with a look after each."""
        record = f"{len(self.written)} " + "y" * size
        data = record.encode() + b"\n"
        for piece in pieces:
            append(self.path, data[:piece])
            data = data[piece:]
            look()
        append(self.path, data)
        self.written.append(record)

    def truncate(self):
        """Cut the file to nothing."""
        if os.path.exists(self.path):
            os.truncate(self.path, 0)

    def rotate(self):
        """Move the file aside."""
        if os.path.exists(self.path):
            self.renamed += 1
            os.rename(self.path, f"{self.path}.{self.renamed}")

    def delete(self):
        """Remove the file."""
        if os.path.exists(self.path):
            os.unlink(self.path)

    def replace(self):
        """Put another file, with one record, in its place."""
        other = Writer(f"{self.path}.new")
        other.written = self.written
        other.write([], 20, lambda: None)
        os.replace(other.path, self.path)


@pytest.mark.capability("OBS-10")
@settings(deadline=None, max_examples=120)
@given(steps=STEPS)
def test_each_record_once(tmp_path_factory, steps):
    """Any interleaving of writing, in any pieces, with rotation, truncation, deletion, replacement and new processes:
    each record comes once and in order, as long as somebody looked before it was destroyed.
    """
    path = str(tmp_path_factory.mktemp("tail") / "file")
    writer, tail, got = Writer(path), [Tail(path)], []

    def look():
        try:
            got.extend(line.decode() for _, line in tail[0].read())
        except FileNotFoundError:
            pass

    for step in steps:
        if step == "look":
            look()
        elif step == "mark":
            look()
            mark = tail[0].mark
            tail[0].close()
            tail[0] = Tail(path, mark)
            # Another process cannot finish a file that it never saw under its name.
            look()
        elif isinstance(step, tuple):
            writer.write(step[1], step[2], look)
        else:
            look()
            getattr(writer, step)()
    look()
    tail[0].close()
    assert got == writer.written


@settings(deadline=None, max_examples=60)
@given(steps=STEPS)
def test_nothing_twice(tmp_path_factory, steps):
    """However seldom somebody looks: nothing comes twice or out of order, and what is there in the end has come."""
    path = str(tmp_path_factory.mktemp("tail") / "file")
    writer, tail, got = Writer(path), Tail(path), []
    for step in [*steps, "look"]:
        if step == "look":
            try:
                got.extend(line.decode() for _, line in tail.read())
            except FileNotFoundError:
                pass
        elif isinstance(step, tuple):
            writer.write(step[1], step[2], lambda: None)
        elif step != "mark":
            getattr(writer, step)()
    tail.close()
    wanted = iter(writer.written)
    assert all(record in wanted for record in got)
    if os.path.exists(path):
        left = Path(path).read_text().splitlines()
        assert got[len(got) - len(left) :] == left


# From the end


def judged(path, needle=b"", wanted=b"good"):
    """Return the newest line with a word, and all that had to be judged for it."""
    asked = []

    def tells(line):
        asked.append(line)
        return line if wanted in line else None

    return last_time(str(path), tells, needle), asked


def test_the_newest(path):
    """The newest matching line is found without judging an older one."""
    append(path, "good 1\nbad 2\ngood 3\nbad 4\n")
    assert judged(path) == (b"good 3", [b"bad 4", b"good 3"])


def test_none_at_all(path):
    """An empty file, and one without a match, have none."""
    path.touch()
    assert judged(path) == (None, [])
    append(path, "bad\n")
    assert judged(path) == (None, [b"bad"])
    assert judged(path, b"nothing") == (None, [])


def test_an_unfinished_line_is_none(path):
    """What comes behind the last line break is no record yet."""
    append(path, "good 1\ngood 2")
    assert judged(path)[0] == b"good 1"


def test_a_line_too_long_to_judge(path, monkeypatch):
    """A line beyond all measure is passed over."""
    monkeypatch.setattr(tails, "_LONGEST", 1000)
    append(path, "good 1\ngood " + "x" * 1000 + "\n")
    assert judged(path)[0] == b"good 1"


def test_a_file_cut_meanwhile(path, monkeypatch):
    """A file that is cut while it is searched gives what can still be read."""
    append(path, "good 1\n" * 10)
    preadv = os.preadv

    def cutting(descriptor, buffers, offset):
        count = preadv(descriptor, buffers, offset)
        os.truncate(path, 0)
        return count

    monkeypatch.setattr(os, "preadv", cutting)
    assert judged(path)[0] is None


@settings(deadline=None, max_examples=150)
@given(
    lines=st.lists(st.text("abn ", max_size=40), max_size=20),
    block=st.integers(2, 9),
    needle=st.sampled_from(["", "a", "nb", "nn"]),
)
def test_backward_is_forward(tmp_path_factory, lines, block, needle):
    """Wherever the borders of blocks lie, the search finds what reading all lines forward finds last."""
    path = tmp_path_factory.mktemp("back") / "file"
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tails, "_FIRST_BLOCK", block)
        patch.setattr(tails, "_BLOCK", 2 * block)
        found, asked = judged(path, needle.encode(), b"b")
    wanted = [line.encode() for line in lines if needle in line]
    assert found == next((line for line in reversed(wanted) if b"b" in line), None)
    assert asked == wanted[::-1][: len(asked)]
