"""The text of HTML: what a reader of the page sees, with tags taken out where they are tags."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commands import dptext
from dptext.text.markup import has_tags, without_tags
from dptext.text.reading import read_records
from dptext.text.records import Fields


def texts(found: Any) -> list[str]:
    return [record.text for record in found]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain, 3 < 5 & <3\n two  spaces", "plain, 3 < 5 & <3\n two  spaces"),
        ("R&amp;D &lt;b&gt;", "R&D <b>"),
        ("<p>Good.</p><p>Very <b>good</b>!</p>", "Good.\nVery good!"),
        ("one<br>two<br/>three", "one\ntwo\nthree"),
        ("<ul><li>a</li><li>b</li></ul>", "a\nb"),
        ("a <script>x < y; '<p>'</script><style>p {}</style>b", "a b"),
        ("<!-- no -->a <i>< b</i> &eacute;", "a < b é"),
        ("a\n<i>b</i>", "a b"),
        ("<p", "<p"),
        (
            "Write to <email> or <ada@example.org>, <i>not</i> <NAME>",
            "Write to <email> or <ada@example.org>, not <NAME>",
        ),
        ("<o:p>Word</o:p><H1>too</H1>", "Word\ntoo"),
        ("a <b and c", "a <b and c"),
        ("a <b and <i>c</i>", "a <b and c"),
        ("I <3 it, <i>so</i> much <more or less", "I <3 it, so much <more or less"),
        # Comments, with tags in them, of Word and Outlook, and the short ones.
        ("<p>hi</p><!-- <p>internal note</p> -->", "hi"),
        ("<!--[if mso]><table><tr><td><![endif]-->there", "there"),
        ("<!-- a > b -->x<!-->y<!--->z<!-- - --!>!", "xyz!"),
        ("<![if !supportLists]>1.<![endif]> one", "1. one"),
        ('<?xml:namespace prefix = o ns = "urn:x" /><!DOCTYPE html><p>x', "x"),
        ("<!-- <script> -->seen<!-- </script> -->", "seen"),
        ('<!-- <a title="--> <b>x</b> "> -->', 'x "> -->'),
        # What is never closed is text.
        ("Use the <script> tag, not <style>. <b>Bold</b>!", "Use the <script> tag, not <style>. Bold!"),
        ("the <title> and <textarea> of <i>it</i>", "the <title> and <textarea> of it"),
        ("a <template> is <i>it</i>", "a <template> is it"),
        ("<!-- begins a comment, <i>they say</i>", "<!-- begins a comment, they say"),
        ("<script>a</script> <SCRIPT>b</Script > c <script>", "c <script>"),
        ("<script/>a<i>b</i><script>no</script>c", "abc"),
        # Raw texts hold no tags.
        ("<script>'<!-- <p>' && \"</p>\"</script>x", "x"),
        ("<textarea><b>&amp;</b></textarea>x", "<b>&</b>\nx"),
        ("<head><title>No <b></title></head><body>x</body>", "x"),
        ("<template><p>no<template>no</template>no</template>yes", "yes"),
        ("<![CDATA[<p>Hello</p> a<b]]> ]]>", "Hello\na<b ]]>"),
        ("<xmp><b>&lt;</b></xmp><b>&lt;</b>", "<b>&lt;</b>\n<"),
        ("<p>a &amp; b<plaintext>c &amp; <b>d</b></plaintext>", "a & b\nc &amp; <b>d</b></plaintext>"),
        ("a<iframe src=x>no <b></iframe> b<noframes>no</noframes> c<noembed>no</noembed>", "a b c"),
        ("<iframe src=x>shown <b>too</b>", "shown too"),
        ("the <xmp> of <i>it</i>", "the <xmp> of it"),
        # A script in a comment of a script ends neither.
        ("a<script><!-- <script> </script> --></script>b", "ab"),
        ("a<script><!-- <script> --> </script>b", "ab"),
        ("a<script><!--> <script> </script>b", "ab"),
        ("a<script><!-- </script>b", "ab"),
        ("a<script><!-- <script> </script>b <i>c</i>", "ab c"),  # never closed: the first end will do
        # Attributes.
        ("if a<b and c>d then <i>stop</i>, or a<i or x=3 or c>d", "if a<b and c>d then stop, or a<i or x=3 or c>d"),
        ("a<b and c>d, <b>not</b> <i nonsense>this</i>", "a<b and c>d, not this"),
        ("<input DISABLED value = 3 v-cloak/>a<td nowrap #x>b<br clear = all>c", "a\nb\nc"),
        (f"<p {' '.join(f'a{i}=*<{i}>*' for i in range(40))}>a</p>".replace("*", '"'), "a"),
        ('<a title="a > b" alt=\'<c>\'>x</a><p class=x">y</p\n>z', "x\ny\nz"),
        ('<a href=x>y</a> <a href="x>y', 'y <a href="x>y'),
        ("<div\n  class = 'a'\n>x</DIV>", "x"),
        # Other words are tags where the text closes them, or where they have attributes.
        ('<svg><g><path d="M0"/></g></svg><my-card x="1">ok</my-card>', "ok"),
        ("<review>good</review> <NAME> </rant> <i>x</i>", "good <NAME> </rant> x"),
        ("a < b and c > d, </3 <https://x.org/> <b>x</b>", "a < b and c > d, </3 <https://x.org/> x"),
        ("<select><option>A<option>B</select><dl><dt>c<dd>d</dl>", "A\nB\nc\nd"),
        ("&lt;p&gt; &amp;lt; &#39;x&#39; <b>&nbsp;&Eacute;</b>&#10;y", "<p> &lt; 'x' É y"),
    ],
)
def test_html_as_it_is_seen(text: str, seen: str) -> None:
    assert without_tags(text) == seen


@given(st.text(st.sampled_from("<>/!-&;#abip x\n"), max_size=60))
@example("<![if x]>")
@example("</" * 20)
def test_any_text_has_its_tags_taken_out(text: str) -> None:
    seen = without_tags(text)
    assert len(seen) <= len(text) * 2
    if not has_tags(text) and "&" not in text:
        assert seen == text


# Text, and what is seen of it; a block begins a line.
LEAVES = st.sampled_from(["a", "b < c", "x &amp; y", "<3", "<ada@example.org>", "1 > 0", "&lt;p&gt;"]).map(
    lambda text: (text, text.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
)
HIDDEN = st.sampled_from(
    [
        "<!-- <p>no</p> -->",
        "<script>if (a < b) '<p>no'</script>",
        "<style>p > b {}</style>",
        "<template><i>no</template>",
    ]
).map(lambda text: (text, ""))
MARKED = st.sampled_from(["<b>{}</b>", "<I class='a > b'>{}</I>", '<a href="x?<y>">{}</a>', "<span\n>{}</span\n>"])
TREES = st.recursive(
    LEAVES | HIDDEN,
    lambda inner: st.tuples(MARKED, st.lists(inner, max_size=4)).map(
        lambda found: (found[0].format(" ".join(text for text, _ in found[1])), " ".join(seen for _, seen in found[1]))
    ),
    max_leaves=12,
)


@given(TREES, TREES)
def test_of_any_page_the_text_is_seen(first: tuple[str, str], second: tuple[str, str]) -> None:
    lines = [" ".join(seen.split()) for _, seen in (first, second)]
    assert without_tags(f"<p>{first[0]}</p><div>{second[0]}</div>") == "\n".join(filter(None, lines))


UNITS = ["<p>", "<!--", "</p", "<b>x", "&lt;", "<script>", "<textarea>", "<template>", "<a ", '<a ="', "<a ='<a =\""]
UNITS += ['<a b="<a" ', '<a ="<a"', "<![CDATA[", "]]>", "<x>", '<x a="<"', "</x><x>", "<b = = '", "<?a", "<!a", "<"]
UNITS += [
    "<script><!--<script>",
    "<script><!--",
    "<!--<script>-->",
    "<b x>",
    "<b x ",
    "</b><b x>",
    '<a b="<" ',
    "<b  = ",
]


@pytest.mark.parametrize("end", ["<i>", pytest.param("'\">", marks=pytest.mark.slow)])  # one end of the text stays
def test_much_html_takes_time_in_proportion(end: str) -> None:
    """Eight times the text takes about eight times as long; time that grew with the square would be 64 times."""

    def seconds(unit: str, size: int) -> float:
        text = unit * (size // len(unit)) + end
        began = time.process_time()
        without_tags(text)
        return time.process_time() - began

    for unit in UNITS:
        little = min(seconds(unit, 5_000) for _ in range(3))
        assert any(seconds(unit, 40_000) < 24 * little for _ in range(3)), unit  # the least of three is, as soon as one


def test_a_command_reads_the_text_of_a_page(tmp_path: Path) -> None:
    pages = ["<p>hi</p><!-- <p>internal note</p> -->", "Use the <script> tag", "<b>R&amp;D</b><script>no</script>"]
    pages += ["if a<b and c>d <i>stop</i>"]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": page}) + "\n" for page in pages))
    how = ("--mechanism", "random_redaction", "--set", "level=0", "--without-guarantee", "--strip-html")
    done = dptext("privatize", "in.jsonl", "out.jsonl", *how, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = [json.loads(line)["text"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert written == ["hi", "Use the < script > tag", "R & D", "if a < b and c > d stop"]


def test_html_is_taken_out_of_records_batches_and_frames(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "<p>a</p>", "label": "<b>"}) + "\n")
    (found,) = read_records(path, Fields(label="label"), strip_html=True)
    assert (found.text, found.label) == ("a", "<b>")
    assert texts(read_records(["<p>a</p>", "b"], strip_html=True)) == ["a", "b"]
