"""Random numbers: a key is a value, equal keys give equal numbers, and a key is split for each use.

    key = rlx.random.key(42)
    key, use = rlx.random.split(key)
    x = rlx.random.normal(use, (3, 4))

Philox 4x32-10 by default; `algorithm="threefry"` gives JAX's numbers, bit for bit where no rounding of elementary functions is in
them. Names, parameters and shapes are those of jax.random.
"""

from ._random.by_inversion import cauchy, exponential, geometric, gumbel, laplace, logistic, pareto, rayleigh, triangular, weibull_min
from ._random.choices import categorical, choice, permutation
from ._random.counts import binomial, multinomial, poisson
from ._random.draws import bernoulli, bits, normal, rademacher, randint, truncated_normal, uniform
from ._random.keys import PRNGKey, clone, fold_in, key, key_data, split, wrap_key_data
from ._random.of_gammas import ball, beta, chisquare, dirichlet, f, gamma, generalized_normal, loggamma, t
from ._random.of_normals import double_sided_maxwell, lognormal, maxwell, multivariate_normal, orthogonal, wald

__all__ = ["PRNGKey", "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "chisquare", "choice", "clone", "dirichlet",
           "double_sided_maxwell", "exponential", "f", "fold_in", "gamma", "generalized_normal", "geometric", "gumbel", "key", "key_data",
           "laplace", "loggamma", "logistic", "lognormal", "maxwell", "multinomial", "multivariate_normal", "normal", "orthogonal", "pareto",
           "permutation", "poisson", "rademacher", "randint", "rayleigh", "split", "t", "triangular", "truncated_normal", "uniform", "wald",
           "weibull_min", "wrap_key_data"]
