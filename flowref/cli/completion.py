"""Shell completion: `flowref completion`, and the completions of arguments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from flowref.cli import names
from flowref.cli.help import Command

PROGRAM, VARIABLE = "flowref", "_FLOWREF_COMPLETE"
# Bash splits words at colons, which specs contain; the part before the last colon is removed.
BASH = """\
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" kind value current=""
    local -a words
    read -ra words <<< "$line"
    local count=${#words[@]}
    [[ "$line" == *" " ]] || { current="${words[count-1]}"; count=$((count - 1)); }
    local before="${current%%"${current##*:}"}"
    [[ "$COMP_WORDBREAKS" == *:* ]] || before=""
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case "$kind" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$before"}") ;;
        esac
    done < <(env COMP_WORDS="$line" COMP_CWORD="$count" %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


class Specs(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no parameter
    """A spec, which completes to libraries, their constructions, files, and the names defined in
    files.
    """

    name = "spec"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The completions of a spec."""
        head, colon, _ = incomplete.partition(":")
        if not colon:
            found = [f"{name}:" for name in names.libraries()] + list(names.libraries())
            for path in names.files(incomplete):
                found += [path, *(f"{path}:{name}" for name in names.defined(Path(path)))]
        elif head in names.libraries():
            found = [f"{head}:{name}" for name in names.constructions(head)]
        else:
            found = [f"{head}:{name}" for name in names.defined(Path(head))]
        return _beginning(found, incomplete)


class Laws(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no parameter
    """Law ids and globs of families, separated by commas."""

    name = "laws"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The completions of the last one."""
        before, comma, _ = incomplete.rpartition(",")
        ids = [law.id for law in names.declared_law_names()]
        globs = dict.fromkeys(f"{one.partition('/')[0]}/*" for one in ids)
        return _beginning([f"{before}{comma}{one}" for one in (*globs, *ids)], incomplete)


def _beginning(texts: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(text) for text in texts if text.startswith(incomplete)]


@click.command(
    cls=Command,
    examples=(
        ("flowref completion bash > ~/.flowref.bash", "then: source it in ~/.bashrc"),
        ("flowref completion zsh > ~/.zfunc/_flowref", "in a folder of fpath"),
        ("flowref completion fish > ~/.config/fish/completions/flowref.fish", "once"),
    ),
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which a shell completes commands, options, specs and laws."""
    program = ctx.find_root().command
    if shell == "bash":
        text = BASH % {
            "complete_func": "_flowref_completion",
            "complete_var": VARIABLE,
            "prog_name": PROGRAM,
        }
    else:
        text = SHELLS[shell](program, {}, PROGRAM, VARIABLE).source()
    click.echo(text)
