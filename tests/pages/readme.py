"""Write what came out of the published results into the README: `make scorecard`."""

import re
from pathlib import Path

import seaborn
from matplotlib import pyplot

from pfl_lib import papers
from pfl_lib.display import theme
from pfl_lib.papers import waffle
from pfl_lib.papers.overview import headline, overview
from pfl_lib.papers.runs import Runs
from pfl_lib.papers.scorecard import answered
from pfl_lib.results.store import Store

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- scorecard: made by make scorecard -->", "<!-- end of scorecard -->"
METHODS = ("Local", "FedAvg", "WE", "WAFFLE", "APFL")


def picture(store: Store, file: Path) -> str:
    """Draw WAFFLE's weights and five methods' accuracy by round, on distribution C in the exact
    setting, seed 1; returns the alt text.
    """
    theme.use()
    table = waffle.TABLE1.only(["C"], METHODS).scaled(waffle.FULL).with_seeds(1)
    runs = Runs((table,), store.find)
    result = runs.result("WAFFLE")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for client in range(result.weights.shape[1]):
        alice = client == table.rows[0].at.alice
        look = {"color": "#de8f05", "linewidth": 3} if alice else {"color": "#949494"}
        left.plot(result.weights_rounds, result.weights[:, client], **look)
    left.set(xlabel="round", ylabel="weight", title="WAFFLE's weights: Alice and nine others")
    curves = runs.frame[runs.frame["client"] == table.rows[0].at.alice]
    looks = theme.looks(METHODS)
    seaborn.lineplot(
        curves, x="round", y="accuracy", hue="method", style="method", ax=right, **looks
    )
    right.set(ylabel="Alice's accuracy, %", title="MNIST, distribution C", ylim=(88, 100))
    right.legend(title="", loc="lower right", ncols=2)
    figure.savefig(file, dpi=160)
    pyplot.close(figure)
    read = curves.groupby("method", sort=False)["accuracy"].agg(["max", "last"])
    return (
        "Left: WAFFLE's ten weights by round, at last Alice's alone. Right: Alice's test accuracy"
        " by round on distribution C, one seed; in the best round (the last) "
        + ", ".join(f"{name} {best:.1f} ({last:.1f}) %" for name, best, last in read.itertuples())
        + "."
    )


def block(store: Store, image: Path) -> str:
    """What stands in the README: the picture, the headline and how many sentences hold."""
    alt = picture(store, ROOT / image)
    found = overview(papers.PRINTED, store.find)
    judged = answered(papers.PRINTED, store.find)
    told = judged["answer"].value_counts()
    exact = judged.loc[judged["profile"] == "paper", "answer"].value_counts()
    words = (
        f"Of {len(judged)} of the papers' sentences {told['yes']} hold ({exact['yes']} by the exact"
    )
    words += f" setting), {told['no']} do not ({exact['no']}), the others are undecided or not run."
    lines = [f"![{alt}]({image})", "", *(f"* {line}" for line in [*headline(found), words])]
    return "\n".join(lines)


if __name__ == "__main__":
    # A folder that does not exist: what is published alone, whatever is stored here.
    made = block(Store(ROOT / "no results here"), Path("docs/weights_and_accuracy.png"))
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    new = f"{BEGIN}\n{made}\n{END}"
    readme.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: new, text, flags=re.S), encoding="utf-8")
