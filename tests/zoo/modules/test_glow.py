"""The flow against autograd's Jacobian, against zuko with the same weights, and against itself backwards."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions.transforms import AffineTransform

from zoo.errors import UsageError
from zoo.modules.glow import ActNorm, CouplingNet, FlowStep, Glow


def stirred(dim: int, seed: int = 0, by: float = 0.15, **settings: object) -> Glow:
    """A flow in double precision whose every parameter is away from its start."""
    torch.manual_seed(seed)
    flow = Glow(dim, **settings).double()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(by * torch.randn_like(parameter))
    return flow


VARIANTS = [
    {"levels": 2, "depth": 3},
    {"levels": 3, "depth": 2, "mixing": "reversal", "residual": False},
    {"levels": 1, "depth": 1, "width": 4},
]


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("dim", [8, 11])
def test_log_determinant_is_that_of_autograds_jacobian(settings: dict[str, object], dim: int) -> None:
    flow = stirred(dim, **settings)
    u = torch.randn(4, dim, dtype=torch.float64)
    z, log_det = flow(u)
    assert z.shape == u.shape and log_det.shape == (4,)
    for row, log_determinant in zip(u, log_det.detach(), strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda x: flow(x[None])[0][0], row)
        sign, wanted = torch.linalg.slogdet(jacobian)  # type: ignore[arg-type]
        assert abs(float(sign)) == 1 and float(wanted) == pytest.approx(float(log_determinant), abs=1e-9)
        assert abs(float(wanted)) > 0.01


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("dim", [8, 11, 256])
def test_the_inverse_undoes_the_flow_in_float32(settings: dict[str, object], dim: int) -> None:
    flow = stirred(dim, by=0.05, **settings).float()
    u = torch.randn(500, dim)
    with torch.no_grad():
        z, _ = flow(u)
        assert (flow.inverse(z) - u).abs().max() < 1e-4
        assert (flow(flow.inverse(u))[0] - u).abs().max() < 1e-4
        assert (z - u).abs().max() > 0.1


@pytest.mark.parametrize("settings", VARIANTS)
def test_log_prob_is_that_of_zukos_pieces_with_the_same_weights(settings: dict[str, object]) -> None:
    zuko = pytest.importorskip("zuko", reason="pip install zuko (extra dev)")
    flow, dim = stirred(12, seed=3, **settings), 12
    pieces = []
    for step in flow.steps:
        channels, half = step.dim, step.dim // 2
        # Channels that an earlier level has finished are left alone: scale 1, own place, on the passive side.
        scale, shift = torch.ones(dim).double(), torch.zeros(dim).double()
        scale[:channels] = torch.exp(3 * step.actnorm.logs.detach())
        shift[:channels] = step.actnorm.bias.detach() * scale[:channels]
        order = torch.cat([step.order, torch.arange(channels, dim)])
        passive = torch.ones(dim, dtype=torch.bool)
        passive[half:channels] = False

        def shifted(a: torch.Tensor, step: FlowStep = step, half: int = half) -> object:
            transform = zuko.transforms.AdditiveTransform(step.net(a[..., :half]))
            return zuko.transforms.DependentTransform(transform, 1)

        pieces += [
            AffineTransform(shift, scale, event_dim=1),
            zuko.transforms.PermutationTransform(order),
            zuko.transforms.CouplingTransform(shifted, passive),
        ]
    base = zuko.distributions.DiagNormal(torch.zeros(dim).double(), torch.ones(dim).double())
    theirs = zuko.distributions.NormalizingFlow(zuko.transforms.ComposedTransform(*pieces), base)
    u = torch.randn(20, dim, dtype=torch.float64)
    torch.testing.assert_close(flow.log_prob(u), theirs.log_prob(u), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(flow(u)[0], theirs.transform(u), rtol=1e-10, atol=1e-10)


def test_the_coupling_net_is_its_formula() -> None:
    torch.manual_seed(1)
    net = CouplingNet(5, 6, 4, residual=True).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn_like(parameter))
    w = {name: value.numpy() for name, value in net.state_dict().items()}
    x = np.random.default_rng(0).normal(size=(7, 5))

    def norm(values: np.ndarray, name: str) -> np.ndarray:
        return np.maximum((values + w[f"{name}.bias"]) * np.exp(3 * w[f"{name}.logs"]), 0)

    h = norm(x @ w["first.weight"].T, "first_norm")
    deeper = norm(h @ w["middle.weight"].T, "middle_norm")
    for residual, before in ((True, deeper + h), (False, deeper)):
        net.residual = residual
        wanted = (before @ w["last.weight"].T + w["last.bias"]) * np.exp(3 * w["logs"])
        np.testing.assert_allclose(net(torch.from_numpy(x)).detach(), wanted, rtol=1e-9)


@pytest.mark.parametrize("residual", [True, False])
def test_the_first_batch_normalises_every_actnorm(residual: bool) -> None:
    torch.manual_seed(0)
    flow = Glow(10, residual=residual)
    u = 7 + torch.randn(400, 10) * torch.logspace(-2, 2, 10)
    flow.initialise(u)
    seen: list[torch.Tensor] = []
    norms = [module for module in flow.modules() if isinstance(module, ActNorm)]
    for norm in norms:
        norm.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.no_grad():
        z, _ = flow(u)
    assert len(seen) == len(norms) == 2 * 3 * 3 and not any(norm.starting for norm in norms)
    for output in seen:
        assert output.mean(0).abs().max() < 1e-3 and (output.var(0, correction=0) - 1).abs().max() < 1e-3
    # The couplings start as zero, so the same holds of z.
    assert z.mean(0).abs().max() < 1e-3 and (z.var(0, correction=0) - 1).abs().max() < 1e-3
    before = {name: value.clone() for name, value in flow.state_dict().items()}
    flow(torch.randn(50, 10))
    assert all(torch.equal(value, before[name]) for name, value in flow.state_dict().items())  # once only


def test_a_channel_that_does_not_vary_keeps_its_scale() -> None:
    flow = Glow(6)
    flow.initialise(torch.full((3, 6), 7.3))
    z, log_det = flow(torch.ones(2, 6))
    assert torch.allclose(z, torch.full((2, 6), -6.3)) and log_det.abs().max() < 1e-6
    norm = ActNorm(2)
    norm.starting = True
    with torch.no_grad():
        assert torch.allclose(norm(torch.tensor([[5.0, 1.0], [5.0, 5.0]])), torch.tensor([[0.0, -1.0], [0.0, 1.0]]))


def test_mixing_is_a_permutation_or_the_reversal() -> None:
    torch.manual_seed(0)
    orders = [step.order.tolist() for step in Glow(32).steps[:3]]
    assert all(sorted(order) == list(range(32)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3 and list(range(31, -1, -1)) not in orders
    assert [s.order.tolist() for s in Glow(4, levels=1, depth=2, mixing="reversal").steps] == [[3, 2, 1, 0]] * 2


def test_too_few_dimensions_are_told() -> None:
    with pytest.raises(UsageError, match="3 levels needs vectors of at least 8 dimensions, not 7"):
        Glow(7, levels=3)
