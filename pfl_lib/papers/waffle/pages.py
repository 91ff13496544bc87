"""The pages about WAFFLE: its tables and figures in the paper's order, then what it leaves open."""

from pfl_lib.papers.exhibits import Exhibit, by_notebook
from pfl_lib.papers.waffle import (
    ALL_PROFILES,
    MANY_RUNS,
    ONE_SEED,
    PAPER,
    SMALL,
    TABLE1,
    cifar10,
    figure_1,
    open_questions,
    readings,
    shift,
    size_penalty,
    small_differs,
)


def _page(name: str, title: str, profiles=ALL_PROFILES, **shown) -> Exhibit:
    id, notebook = f"{PAPER}-{name.partition('_')[0]}", f"{PAPER}/{name}.ipynb"
    return Exhibit(id, "WAFFLE", title, notebook, profiles, **shown)


PAGES = (
    _page(
        "table1_accuracy",
        "Table 1: accuracy of six methods on five distributions",
        runs=by_notebook("waffle/table1_accuracy.ipynb"),
        tables=(TABLE1,),
    ),
    _page(
        "cifar10",
        "Table 1, CIFAR10: accuracy of six methods on five distributions",
        cifar10.PROFILES,
        runs=by_notebook("waffle/cifar10.ipynb"),
        tables=(cifar10.TABLE,),
    ),
    _page("table2_distributions", "Table 2 and Figure 2: who holds which labels"),
    _page(
        "table3_hyperparameters",
        "Table 3: hyper-parameters, and when they leave Alice alone",
        ONE_SEED,
        runs=by_notebook("waffle/table3_hyperparameters.ipynb"),
    ),
    _page(
        "fig1_personalised_model",
        "Figure 1: the personalised model over three rounds",
        figure_1.PROFILES,
    ),
    _page(
        "fig3_weight_evolution",
        "Figure 3: how weights evolve from everyone to Alice",
        ONE_SEED,
        runs=by_notebook("waffle/fig3_weight_evolution.ipynb"),
    ),
    _page(
        "fig4_accuracy_evolution",
        "Figure 4: accuracy by round on distribution C",
        runs=by_notebook("waffle/fig4_accuracy_evolution.ipynb"),
    ),
    _page(
        "fig6_accuracy_all_distributions",
        "Figure 6: accuracy by round on every distribution",
        runs=by_notebook("waffle/fig6_accuracy_all_distributions.ipynb"),
    ),
    _page(
        "fig7_accuracy_cifar10",
        "Figure 7: accuracy by round on every distribution of CIFAR10",
        cifar10.PROFILES,
        runs=by_notebook("waffle/fig7_accuracy_cifar10.ipynb"),
    ),
    _page("fig8_omega", "Figure 8: the degree of personalisation, Omega"),
    _page(
        "claims",
        "What the paper says about speed and the way to local training",
        runs=by_notebook("waffle/claims.ipynb"),
    ),
    _page(
        "shift",
        "One model under concept shift: whose labels win",
        small_differs(MANY_RUNS, "FedAvg and SCAFFOLD have five seeds on A* and B*."),
        runs=shift.runs,
        explains=shift.explains,
    ),
    _page(
        "apfl",
        "What decides APFL's accuracy",
        small_differs(MANY_RUNS, ""),
        runs=by_notebook("waffle/apfl.ipynb"),
    ),
    _page(
        "tuning",
        "What tuning changes: WAFFLE's slope and WE's p_d",
        MANY_RUNS,
        runs=by_notebook("waffle/tuning.ipynb"),
    ),
    _page(
        "open-questions",
        "Questions that the paper leaves to others",
        MANY_RUNS,
        runs=open_questions.runs,
    ),
    _page(
        "size-penalty",
        "The appendix's last table: Weight Erosion's size penalty",
        size_penalty.PROFILES,
        runs=size_penalty.runs,
    ),
    _page(
        "readings",
        "Equation 1, and Alice's test images",
        small_differs(ALL_PROFILES, f"WAFFLE has five seeds on A*. {SMALL.differs}"),
        runs=readings.runs,
    ),
)
