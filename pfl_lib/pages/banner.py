"""The banner of a page: what was run, or what is wrong with the page, in a coloured line."""

import html
import re

LONG = 100  # letters of a banner behind its first sentence, from which on a telephone folds them


def banner_line(kind: str, words: str, link: str = "") -> str:
    """A banner in HTML, none without words: what stands before its colon is bold, and leads to
    `link` where there is one; `kind` is its class.
    """
    if not words:
        return ""
    head, colon, rest = words.partition(":")
    head = f"<strong>{html.escape(head)}</strong>"
    body = (f'<a href="{link}">{head}</a>' if link else head) + colon + _rest(rest)
    return f'<p class="banner {kind}">{body}</p>\n'


def _rest(words: str) -> str:
    """Its sentences, of which a telephone folds all but the first, where they are long, and how
    many runs are stored.
    """
    first, more, stored = re.fullmatch(
        r"(.*?[.](?=\s[A-Z0-9]|$)|.*?$)(.*?)(\sStored: .*)?", words, flags=re.DOTALL
    ).groups(default="")
    if len(more) < LONG:
        return html.escape(words)
    box = '<label><input type="checkbox"> all of it</label>'
    folded = f' {box}<span class="more">{html.escape(more)}</span>'
    return html.escape(first) + folded + html.escape(stored)
