"""The papers: their titles, and where those that are free to read can be read."""

PAPERS = {
    "WAFFLE": (
        "WAFFLE: Weighted Averaging for Personalized Federated Learning (Beaussart et al., 2021)"
    ),
    "Weight Erosion": (
        "Weight Erosion: an Update Aggregation Scheme for Personalized Collaborative Machine"
        " Learning (Grimberg et al., 2020)"
    ),
    "FedFomo": (
        "Personalized Federated Learning with First Order Model Optimization (Zhang et al., 2021)"
    ),
    "pFedLA": "Layer-wised Model Aggregation for Personalized Federated Learning (Ma et al., 2022)",
}
WHERE = {
    "WAFFLE": "https://arxiv.org/abs/2110.06978",
    "FedFomo": "https://openreview.net/forum?id=ehJqJQk9cw",
    "pFedLA": "https://arxiv.org/abs/2205.03993",
}
"""Where a paper can be read, as in CITATION.cff."""
