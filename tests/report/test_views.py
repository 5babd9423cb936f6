from __future__ import annotations

import csv
import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from strongticket.experiments.catalogue import views
from strongticket.experiments.fits import Fit, fit_gamma, fit_linear, fit_log
from strongticket.experiments.store import FILE, Row, Store
from strongticket.experiments.view import View
from strongticket.report.picture import write_figure


@pytest.fixture(scope="module")
def sample_views(sample_results):
    with Store(sample_results) as store:
        return {view.name: view for view in views(store)}


def test_every_figure_has_lines_a_table_and_checks(sample_views):
    assert list(sample_views) == ["fig4", "fig5", "fig6", "fig9", "fig10"]
    for view in sample_views.values():
        assert view.series
        assert view.rows
        assert all(len(row) == len(view.columns) for row in view.rows)
        assert view.checks
        assert view.settings["trials"].split(" of ")[0] == view.settings["trials"].split(" of ")[1]
        for series in view.series:
            assert len(series.x) == len(series.y) > 0
            assert all(math.isfinite(y) for y in series.y)


def test_fig4_shows_means_medians_fits_and_the_papers_curve(sample_views):
    labels = [series.label for series in sample_views["fig4"].series]
    for words in (
        "mean",
        "median",
        "certificate",
        "log space",
        "curve_fit",
        "the paper's fit: 0.8·exp(-0.06 n)",
        "Xavier",
    ):
        assert any(words in label for label in labels), words
    paper = next(s for s in sample_views["fig4"].series if s.label.startswith("the paper's fit"))
    assert paper.y[0] == pytest.approx(0.8 * math.exp(-0.06 * 4))
    assert "R² on its task is" in sample_views["fig4"].about


def test_fig5_certificates_lie_above_the_errors(sample_views):
    rows = [dict(zip(sample_views["fig5"].columns, row, strict=True)) for row in sample_views["fig5"].rows]
    assert {row["length"] for row in rows} == {4, 16, 64, 256, 1024, 4096}
    assert all(row["mean"] < row["mean certificate"] for row in rows)
    bounded = next(c for c in sample_views["fig5"].checks if "does not depend on T" in c.claim)
    assert bounded.verdict == "agrees"


def test_fig6_has_one_rate_for_all_blocks(sample_views):
    rows = [dict(zip(sample_views["fig6"].columns, row, strict=True)) for row in sample_views["fig6"].rows]
    assert {row["blocks"] for row in rows} == set(range(1, 7))
    assert len({row["δ"] for row in rows}) == 1
    assert len({row["γ"] for row in rows}) == 6


def test_pictures_and_csv(sample_views, tmp_path):
    for view in (sample_views["fig4"], sample_views["fig10"]):
        paths = write_figure(view, tmp_path)
        assert [path.name for path in paths] == [f"{view.name}.{kind}" for kind in ("png", "svg", "pdf", "csv")]
        heads = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
        assert all(path.read_bytes().startswith(heads[path.suffix[1:]]) for path in paths[:3])
        with paths[3].open(newline="") as file:
            table = list(csv.reader(file))
        assert tuple(table[0]) == tuple(view.columns)
        assert len(table) == 1 + len(view.rows)
        assert "hidden units" in paths[1].read_text()
    before = (tmp_path / "fig4.svg").read_bytes()
    write_figure(sample_views["fig4"], tmp_path)
    assert (tmp_path / "fig4.svg").read_bytes() == before


def test_lines_differ_without_colour(sample_views):
    for view in sample_views.values():
        styles = [(series.marker, series.dash, series.color is None) for series in view.series]
        assert len(set(styles)) == len(styles), view.name


def search_rows(losses):
    """Rows of searches with the given losses by (mode, scale, width)."""
    return [
        Row(
            f"{mode}{scale}{width}{seed}",
            "search",
            {
                **{"mode": mode, "qk_scale": scale, "model": "gpt2-tiny", "layers": 2, "width": width},
                **{"heads": width // 64, "corpus": "embedded", "recipe": "best", "density": 0.3, "preset": "laptop"},
            },
            {"loss": loss + 0.01 * seed, "nonzero": 1000 * width},
            [seed],
            {},
            {},
            1.0,
            "",
        )
        for (mode, scale, width), loss in losses.items()
        for seed in range(3)
    ]


def test_fig7_compares_plain_scaled_and_dense():
    from strongticket.experiments import fig7
    from strongticket.experiments.language_models import THEORY_SCALE
    from strongticket.experiments.store import Plan

    losses = {
        (mode, scale, width): base - width / 1000
        for width in (64, 128)
        for mode, scale, base in (("search", 1.0, 5.0), ("search", THEORY_SCALE, 4.9), ("dense", 1.0, 4.5))
    }
    view = fig7.view(Plan("fig7", "quick", {}, [], ""), search_rows(losses))
    assert isinstance(view, View)
    assert [series.x for series in view.series] == [[0.064, 0.128]] * 3
    assert view.series[0].y == pytest.approx([4.946, 4.882])
    assert view.checks[0].verdict == "agrees"
    assert "lower in 2 of 2 models" in view.checks[0].measured


def test_differences_within_the_noise_decide_nothing():
    from strongticket.experiments import fig7, fig8
    from strongticket.experiments.language_models import THEORY_SCALE
    from strongticket.experiments.store import Plan

    rows = search_rows({("search", 1.0, 128): 5.0, ("search", THEORY_SCALE, 128): 4.995})
    assert fig7.view(Plan("fig7", "quick", {}, [], ""), rows).checks[0].verdict == "open"
    assert fig8.view(Plan("fig8", "quick", {}, [], ""), rows).checks[0].verdict == "open"


def test_no_verdict_before_all_trials_are_done(sample_results, tmp_path):
    shutil.copy(sample_results / FILE, tmp_path / FILE)
    with Store(tmp_path) as store:
        plan = next(plan for plan in store.plans() if plan.figure == "fig5")
        store.ask("fig5", "quick", {}, _stubs([*plan.trials, "missing"]))
        view = next(view for view in views(store) if view.name == "fig5")
    assert view.verdict == "open"
    assert {check.verdict for check in view.checks} == {"open"}
    assert view.checks[0].measured.startswith("So far, 3 of 4 trials: ")


def _stubs(ids):
    return [SimpleNamespace(id=key) for key in ids]


@pytest.mark.parametrize(("best", "verdict"), [(2.0, "agrees"), (8.0, "differs")])
def test_fig8_finds_the_best_scale(best, verdict):
    from strongticket.experiments import fig8
    from strongticket.experiments.store import Plan

    losses = {("search", scale, 128): 4.0 + abs(scale - best) for scale in (1.0, 2.0, 2.8284, 8.0)}
    view = fig8.view(Plan("fig8", "quick", {}, [], ""), search_rows(losses))
    assert view.checks[0].verdict == verdict
    assert f"least at {best:g}" in view.checks[0].measured


class TestFits:
    widths = np.arange(4, 65, 4)

    def test_exact_data(self):
        errors = 0.8 * np.exp(-0.06 * self.widths)
        for fit in (fit_log(self.widths, errors), fit_linear(self.widths, errors)):
            assert (fit.gamma, fit.delta, fit.r2, fit.r2_linear) == pytest.approx((0.8, 0.06, 1.0, 1.0))

    def test_the_two_spaces_weigh_differently(self):
        errors = 0.8 * np.exp(-0.3 * self.widths) + 1e-4
        assert fit_linear(self.widths, errors).delta == pytest.approx(0.3, rel=0.01)
        assert fit_log(self.widths, errors).delta < 0.15

    @pytest.mark.parametrize("log", [True, False])
    def test_gamma_alone(self, log):
        assert fit_gamma(self.widths, 2.0 * np.exp(-0.1 * self.widths), 0.1, log=log).gamma == pytest.approx(2.0)

    def test_zeros_are_left_out_and_too_few_points_refused(self):
        assert fit_log([4, 8, 12], [1.0, math.exp(-1), 0.0]).delta == pytest.approx(0.25)
        with pytest.raises(ValueError, match="at least two widths with a positive error, got 1"):
            fit_log([4, 8], [1.0, 0.0])

    def test_flat_errors(self):
        fit = fit_linear(self.widths, np.full(16, 0.5))
        assert (fit.gamma, fit.delta) == pytest.approx((0.5, 0.0), abs=1e-9)
        assert isinstance(fit, Fit)
