"""Which public functions torch has, and small inputs to call each with.

The inputs come from torch's own operator database (it needs `expecttest`) and, for what that does not cover, from the
table in `by_hand`. An input is `(args, keywords)`; floating tensors in it require grad.
"""

from __future__ import annotations

import inspect
import sys

import torch
import torch.nn.functional as F


def words(text):
    return text.split()


SPACES = {
    "torch": torch,
    "torch.Tensor": torch.Tensor,
    "torch.nn.functional": F,
    "torch.linalg": torch.linalg,
    "torch.special": torch.special,
    "torch.fft": torch.fft,
}
MAX_SAMPLES = 40

# ------------------------------------------------------------------ what is public
NOT_OPS = words(
    "autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache compile "
    "compiled_with_cxx11_abi classproperty fork wait import_ir_module import_ir_module_from_buffer load "
    "save seed initial_seed manual_seed get_rng_state set_rng_state typename merge_type_from_type_comment"
    " parse_ir parse_schema parse_type_comment prepare_multiprocessing_environment unify_type_list vmap "
    "while_loop cond get_file_path init_num_threads profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 "
    "thread_safe_generator from_file from_dlpack assert_int_or_pair boolean_dispatch "
    "handle_torch_function has_torch_function has_torch_function_unary has_torch_function_variadic "
    "Optional sym_constrain_range sym_constrain_range_for_size sym_float sym_fresh_size sym_int sym_ite "
    "sym_max sym_min sym_not sym_sqrt sym_sum is_storage is_warn_always_enabled lstsq eig symeig solve "
    "matrix_rank reinforce module_load __new__ __init__ __init_subclass__ __subclasshook__ "
    "__torch_function__ __torch_dispatch__ __getattribute__ __setattr__ __delattr__ __dir__ __sizeof__ "
    "__setstate__ __getstate__ __reduce__ __reduce_ex__ __class__ __doc__ __hash__ __delitem__ "
    "register_hook register_post_accumulate_grad_hook record_stream set_ resize resize_as volatile name "
    "__dlpack_device__ __cuda_array_interface__ __dlpack_c_exchange_api__ __array_priority__ "
    "__annotations__ __dict__ __module__ __weakref__ __class_getitem__"
)
OTHER_BACKENDS = (
    "cudnn",
    "miopen",
    "mkldnn",
    "fbgemm",
    "quantized",
    "cuda",
    "ipu",
    "xpu",
    "mtia",
    "is_vulkan",
    "get_autocast",
    "set_autocast",
    "is_autocast",
    "batch_norm_backward",
    "batch_norm_elemt",
    "batch_norm_gather",
    "batch_norm_stats",
    "batch_norm_update",
    "q_",
    "qscheme",
    "int_repr",
    "choose_qparams",
    "empty_quantized",
    "fused_moving_avg",
    "scaled_mm",
    "scaled_grouped_mm",
    "grouped_mm",
    "record",
)
SETTING = ("set_", "get_", "is_deterministic", "are_deterministic", "use_deterministic", "is_anomaly")


def public_names():
    out = {}
    for sp, m in SPACES.items():
        for n in dir(m):
            if n.startswith("_") and not (sp == "torch.Tensor" and n.startswith("__")):
                continue
            try:
                v = getattr(m, n)
                inspect.getattr_static(m, n)
            except Exception:
                continue
            if inspect.ismodule(v) or (inspect.isclass(v)):
                continue
            prop = sp == "torch.Tensor" and not callable(v)
            if not prop and not callable(v):
                continue
            if type(v).__name__ in ("_GenericAlias", "_SpecialForm", "BroadcastingListCls"):
                continue
            out[f"{sp}.{n}"] = "property" if prop else "function"
    return out


def why_skipped(name):
    sp, n = name.rsplit(".", 1)
    if n in NOT_OPS and sp not in ("torch.linalg", "torch.special", "torch.fft"):
        return "not an operation on tensors"
    if any(n.startswith(p) for p in OTHER_BACKENDS) and n not in ("is_cuda",):
        return "needs another backend, quantized tensors or a GPU"
    if (
        not name.startswith("torch.Tensor.")
        and any(n.startswith(p) for p in SETTING)
        and n not in ("get_device", "set_")
    ):
        return "a setting"
    return None


def resolve(name):
    sp, n = name.rsplit(".", 1)
    return getattr(SPACES[sp], n)


# ------------------------------------------------------------------ walking arguments
def is_tensor(o):
    return isinstance(o, torch.Tensor)


def floating(t):
    return t.is_floating_point() or t.is_complex()


def walk(o, path=""):
    """The tensors inside an argument, each as `(path, tensor)`."""
    if is_tensor(o):
        yield path, o
    elif isinstance(o, (list, tuple)):
        for i, v in enumerate(o):
            yield from walk(v, f"{path}[{i}]")
    elif isinstance(o, dict):
        for k, v in o.items():
            yield from walk(v, f"{path}[{k!r}]")


def rebuild(o, f):
    """The argument once more, with `f(tensor)` in place of each tensor."""
    if is_tensor(o):
        return f(o)
    if isinstance(o, torch.Size):
        return o
    if isinstance(o, tuple) and hasattr(o, "_fields"):
        return type(o)(*[rebuild(v, f) for v in o])
    if isinstance(o, (list, tuple)):
        return type(o)(rebuild(v, f) for v in o)
    if isinstance(o, dict):
        return {k: rebuild(v, f) for k, v in o.items()}
    return o


# ------------------------------------------------------------------ samples
def T(*s, lo=0.1, hi=0.9, dt=torch.float32, rg=True):
    t = torch.rand(s, dtype=dt) * (hi - lo) + lo
    return t.requires_grad_(rg)


def integers(*s, hi=2):
    return torch.randint(0, hi, s)


def by_hand():
    """name -> list of (args, kwargs).  Only for functions without OpInfo samples."""
    H = {}

    def add(names, *calls):
        for n in names.split():
            H.setdefault(n, []).extend(calls)

    def c(*a, **k):
        return (a, k)

    def x():
        return T(4)

    def m():
        return T(3, 3)

    for n in ("torch", "torch.nn.functional"):
        add(
            f"{n}.alpha_dropout {n}.feature_alpha_dropout {n}.dropout {n}.feature_dropout "
            f"{n}.alpha_dropout_ {n}.feature_alpha_dropout_ {n}.dropout_ {n}.feature_dropout_",
            c(T(4, 5), 0.3, True),
            c(T(4, 5), 0.3, False),
        )
        add(f"{n}.adaptive_avg_pool1d {n}.adaptive_max_pool1d {n}.adaptive_max_pool1d_with_indices", c(T(1, 2, 6), 3))
        add(f"{n}.avg_pool1d {n}.max_pool1d {n}.max_pool1d_with_indices", c(T(1, 2, 6), 2))
        add(f"{n}.max_pool2d {n}.max_pool2d_with_indices {n}.lp_pool2d", c(T(1, 2, 6, 6), 2))
        add(f"{n}.max_pool3d {n}.max_pool3d_with_indices", c(T(1, 2, 4, 4, 4), 2))
        add(f"{n}.conv_tbc", c(T(5, 2, 3), T(2, 3, 4), T(4)))
        add(
            f"{n}.relu {n}.relu_ {n}.selu {n}.selu_ {n}.celu {n}.celu_ {n}.elu_ "
            f"{n}.leaky_relu_ {n}.hardtanh_ {n}.rrelu {n}.rrelu_ {n}.hardshrink",
            c(T(5, lo=-1, hi=1)),
        )
        add(f"{n}.threshold {n}.threshold_", c(T(6, lo=0.0, hi=1.0), 0.3, 0.0))
        add(f"{n}.cosine_similarity {n}.pairwise_distance", c(T(3, 4), T(3, 4)))
        add(f"{n}.cosine_embedding_loss", c(T(3, 4), T(3, 4), torch.tensor([1.0, -1.0, 1.0])))
        add(f"{n}.hinge_embedding_loss", c(T(3), torch.tensor([1.0, -1.0, 1.0])))
        add(f"{n}.margin_ranking_loss", c(T(3), T(3), torch.tensor([1.0, -1.0, 1.0])))
        add(f"{n}.triplet_margin_loss", c(T(3, 4), T(3, 4), T(3, 4)))
        add(f"{n}.kl_div", c(T(3, 4), T(3, 4)))
        add(f"{n}.poisson_nll_loss", c(T(3), T(3, rg=False), True, False, 1e-8, 1))
        add(
            f"{n}.ctc_loss",
            c(
                torch.randn(5, 1, 3).log_softmax(2).requires_grad_(),
                torch.tensor([[1, 2]]),
                torch.tensor([5]),
                torch.tensor([2]),
            ),
        )
        add(f"{n}.binary_cross_entropy_with_logits", c(T(3), T(3, rg=False)))
        add(f"{n}.bilinear", c(T(2, 3), T(2, 4), T(5, 3, 4), T(5)))
        add(f"{n}.pdist", c(T(3, 4)))
        add(f"{n}.pixel_shuffle", c(T(1, 4, 2, 2), 2))
        add(f"{n}.pixel_unshuffle", c(T(1, 1, 4, 4), 2))
        add(f"{n}.channel_shuffle {n}.native_channel_shuffle", c(T(1, 4, 2, 2), 2))
        add(f"{n}.prelu", c(T(2, 3, lo=-1, hi=1), T(3)))
        add(f"{n}.lp_pool1d", c(T(1, 2, 6), 2.0, 2))
        add(f"{n}.lp_pool3d", c(T(1, 1, 4, 4, 4), 2.0, 2))
    H["torch.nn.functional.lp_pool2d"] = [c(T(1, 2, 6, 6), 2.0, 2)]
    H["torch.embedding"] = [c(T(4, 3), integers(2))]
    H["torch.embedding_bag"] = [c(T(4, 3), integers(4), torch.tensor([0, 2]))]
    H["torch.embedding_renorm_"] = [c(T(4, 3), integers(2), 0.1, 2.0)]
    add("torch.nn.functional.dropout1d", c(T(2, 3, 4), 0.5, True), c(T(2, 3, 4), 0.5, False))
    add("torch.nn.functional.affine_grid torch.affine_grid_generator", c(T(1, 2, 3), [1, 1, 3, 3], False))
    add("torch.grid_sampler", c(T(1, 1, 4, 4), T(1, 2, 2, 2), 0, 0, False))
    add("torch.nn.functional.adaptive_max_pool2d_with_indices", c(T(1, 2, 6, 6), 3))
    add("torch.nn.functional.adaptive_max_pool3d_with_indices", c(T(1, 1, 4, 4, 4), 2))
    add("torch.nn.functional.fractional_max_pool2d_with_indices", c(T(1, 1, 6, 6), 2, 3))
    add("torch.nn.functional.fractional_max_pool3d_with_indices", c(T(1, 1, 6, 6, 6), 2, 3))
    add("torch.nn.functional.fold", c(T(1, 4, 9), (4, 4), 2))
    add("torch.nn.functional.gumbel_softmax", c(T(2, 3)), c(T(2, 3), 1.0, True))
    add("torch.nn.functional.upsample", c(T(1, 1, 3, 3), None, 2))
    add("torch.batch_norm", c(T(4, 3), T(3), T(3), T(3, rg=False), T(3, rg=False), True, 0.1, 1e-5, False))
    add("torch.instance_norm", c(T(2, 3, 4), T(3), T(3), None, None, True, 0.1, 1e-5, False))
    add("torch.convolution", c(T(1, 2, 5), T(3, 2, 3), T(3), [1], [0], [1], False, [0], 1))
    add("torch.native_dropout", c(T(4), 0.5, True))
    add("torch.native_norm", c(x()))
    add("torch.norm_except_dim", c(m(), 2, 0))
    add("torch.nuclear_norm torch.frobenius_norm torch.slogdet", c(m()))
    H["torch.frobenius_norm"] = [c(m(), [0, 1])]
    add("torch.chain_matmul", c(m(), m(), m()))
    add(
        (
            "torch.vander torch.poisson torch.detach torch.detach_ torch.detach_copy torch.tensor torch.as_tensor"
            " torch.asarray torch.numel torch.is_inference torch.is_conj torch.is_neg torch.is_signed "
            "torch.is_complex torch.is_floating_point torch.is_distributed torch.get_device torch.is_tensor"
        ),
        c(x()),
    )
    add("torch.is_nonzero", c(T(1)))
    add("torch.is_same_size torch.result_type", c(x(), x()))
    add("torch.can_cast torch.promote_types", c(torch.float32, torch.int64))
    add("torch.binomial", c(torch.full((3,), 5.0).requires_grad_(), T(3)))
    add("torch.conj_physical_ torch.view_as_real_copy", c(T(2, dt=torch.complex64)))
    add("torch.view_as_complex_copy", c(T(3, 2)))
    add("torch.select_copy", c(m(), 0, 1))
    add("torch.slice_copy", c(m(), 0, 0, 2))
    add("torch.split_copy torch.unsafe_split_with_sizes", c(T(4), [2, 2]))
    H["torch.split_copy"] = [c(T(4), 2)]
    add("torch.as_strided_", c(T(4), (2, 2), (2, 1)))
    add("torch.index_put_", c(T(4), (torch.tensor([1]),), T(1)))
    add("torch.fill_", c(x(), 1.0), c(x(), T()))
    add("torch.addmv_", c(T(3), m(), T(3)))
    for n in words(
        "abs acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil cos cosh "
        "deg2rad erf erfc exp exp2 expm1 fix floor frac i0 log log10 log1p log2 logit nan_to_num neg negative"
        " rad2deg reciprocal round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc"
    ):
        add(f"torch.{n}_", c(T(4, lo=1.1, hi=1.9) if n in ("acosh", "arccosh") else x()))
    add("torch.clamp_ torch.clip_", c(x(), 0.2, 0.8))
    add("torch.clamp_max_ torch.clamp_min_", c(x(), 0.5))
    add("torch.ldexp_", c(x(), T(4)))
    add("torch.xlogy_", c(x(), x()))
    add("torch.gcd_ torch.lcm_", c(integers(3, hi=6) + 1, integers(3, hi=6) + 1))
    add(
        (
            "torch.bartlett_window torch.blackman_window torch.hamming_window torch.hann_window "
            "torch.kaiser_window torch.randperm torch.rand torch.range torch.fft.fftfreq torch.fft.rfftfreq"
        ),
        c(4),
    )
    H["torch.range"] = [c(0, 3)]
    add("torch.from_numpy", c(torch.ones(3).numpy()))
    add("torch.to_dlpack", c(torch.ones(3)))
    add("torch.fake_quantize_per_tensor_affine", c(x(), 0.1, 0, 0, 255))
    add("torch.fake_quantize_per_channel_affine", c(m(), T(3, rg=False), torch.zeros(3, dtype=torch.int32), 0, 0, 255))
    add("torch.quantize_per_tensor", c(x(), 0.1, 0, torch.quint8))
    add("torch.quantize_per_tensor_dynamic", c(x(), torch.quint8, False))
    add("torch.quantize_per_channel", c(m(), T(3, rg=False), torch.zeros(3), 0, torch.quint8))
    add("torch.dequantize torch.Tensor.dequantize", c(x()))
    add(
        "torch.segment_reduce",
        c(T(4), "sum"),
    )
    H["torch.segment_reduce"] = [((T(4), "sum"), {"lengths": torch.tensor([2, 2])})]
    add("torch.lobpcg", c(torch.eye(9).mul(3).add(0.1).requires_grad_(), 1))

    def w(g):
        return (T(g * 4, 3), T(g * 4, 4), T(g * 4), T(g * 4))

    add("torch.lstm_cell", c(T(2, 3), (T(2, 4), T(2, 4)), *w(4)))
    add("torch.gru_cell", c(T(2, 3), T(2, 4), *w(3)))
    add("torch.rnn_tanh_cell torch.rnn_relu_cell", c(T(2, 3), T(2, 4), *w(1)))
    add("torch.lstm", c(T(5, 2, 3), (T(1, 2, 4), T(1, 2, 4)), list(w(4)), True, 1, 0.0, False, False, False))
    add("torch.gru", c(T(5, 2, 3), T(1, 2, 4), list(w(3)), True, 1, 0.0, False, False, False))
    add("torch.rnn_tanh torch.rnn_relu", c(T(5, 2, 3), T(1, 2, 4), list(w(1)), True, 1, 0.0, False, False, False))

    def sp():
        return torch.eye(3).to_sparse()

    add("torch.smm torch.hspmm torch.dsmm torch.spmm torch.hsmm", c(sp(), m()))
    add("torch.sspaddmm", c(sp(), sp(), m()))
    add("torch.saddmm", c(m(), sp(), m()))
    add("torch.sparse_coo_tensor", c(torch.tensor([[0, 1]]), T(2), (3,)))
    add(
        "torch.sparse_csr_tensor torch.sparse_compressed_tensor torch.sparse_csc_tensor",
        c(torch.tensor([0, 1, 2]), torch.tensor([0, 1]), T(2), (2, 2)),
    )
    H["torch.sparse_compressed_tensor"] = [
        ((torch.tensor([0, 1, 2]), torch.tensor([0, 1]), T(2), (2, 2)), {"layout": torch.sparse_csr})
    ]
    add("torch.special.gammainc torch.special.gammaincc", c(T(3, rg=False), T(3)))
    # ---- Tensor methods
    t = "torch.Tensor."
    B = (
        "__add__ __sub__ __mul__ __truediv__ __div__ __pow__ __floordiv__ __mod__ __eq__ __ne__ __lt__ __le__"
        " __gt__ __ge__ __rfloordiv__ __rtruediv__ __iadd__ __isub__ __imul__ __itruediv__ __idiv__ __imod__ "
        "__ifloordiv__ __ipow__ arctan2 divide divide_ greater greater_ greater_equal greater_equal_ less "
        "less_ less_equal less_equal_ multiply multiply_ not_equal not_equal_ subtract subtract_ arctan2_ ger"
        " type_as is_same_size copy_ __rsub__ __radd__ __rmul__ __rpow__ __rmod__ __rdiv__"
    )
    for n in B.split():
        add(t + n, c(x(), T(4)), c(x(), 2.0)) if n.startswith("__") or n in [
            "divide",
            "multiply",
            "subtract",
            "greater",
            "less",
            "divide_",
        ] else add(t + n, c(x(), T(4)))
    add(t + "__matmul__ " + t + "__rmatmul__", c(m(), m()))
    for n in words(
        "__and__ __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__ "
        "__rand__ __ror__ __rxor__ __rlshift__ __rrshift__"
    ):
        add(t + n, c(integers(3) + 1, integers(3) + 1))
    add(t + "__invert__", c(integers(3)))
    U = (
        "__abs__ __neg__ __pos__ __reversed__ __len__ __iter__ __repr__ __str__ __array__ __deepcopy__ "
        "absolute absolute_ arccos arccos_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan_ arctanh arctanh_ "
        "bernoulli bernoulli_ cpu clone data_ptr const_data_ptr detach detach_ dim ndimension nelement numel "
        "element_size fix fix_ get_device hardshrink is_complex is_conj is_contiguous is_distributed "
        "is_floating_point is_inference is_neg is_pinned is_shared is_signed negative negative_ "
        "new_tensor_self numpy relu relu_ random_ requires_grad_ retain_grad size stride storage "
        "untyped_storage storage_offset storage_type tolist type dim_order is_coalesced sparse_dim dense_dim "
        "to_sparse_coo share_memory_ to_dense new coalesce_ exponential_ normal_ uniform_ cauchy_ geometric_ "
        "log_normal_ zero_ to_mkldnn float double half bfloat16 int long short char byte bool cfloat "
        "contiguous"
    )
    for n in U.split():
        add(t + n, c(x()))
    H[t + "__deepcopy__"] = [c(x(), {})]
    H[t + "arccosh"] = H[t + "arccosh_"] = [c(T(4, lo=1.1, hi=1.9))]
    for n in words(
        "__bool__ __nonzero__ __float__ __int__ __long__ __complex__ item is_nonzero tolist __format__ "
        "__contains__ backward"
    ):
        H[t + n] = [c(T(1).detach().reshape(()).requires_grad_())]
    add(t + "__index__", c(integers(1).reshape(())))
    H[t + "__format__"] = [c(T().requires_grad_(), ".2f")]
    H[t + "__contains__"] = [c(x(), 0.5)]
    H[t + "tolist"].append(c(x()))
    H[t + "geometric_"] = [c(x(), 0.5)]
    add(t + "clip " + t + "clip_", c(x(), 0.2, 0.8))
    add(t + "det " + t + "inverse " + t + "slogdet " + t + "adjoint", c(m()))
    add(t + "matrix_power", c(m(), 2))
    add(t + "moveaxis " + t + "swapaxes " + t + "swapdims " + t + "swapaxes_ " + t + "swapdims_", c(m(), 0, 1))
    add(t + "multinomial", c(x(), 2))
    add(t + "orgqr", c(m(), T(3)))
    add(t + "prelu", c(T(2, 3, lo=-1, hi=1), T(3)))
    add(t + "new_tensor", c(x(), [1.0]), c(x(), T(2)))
    add(t + "type", c(x(), torch.float64), c(x(), torch.int64), c(x(), torch.float32))
    add(t + "fill_diagonal_", c(m(), 1.0))
    add(t + "map_", c(x(), T(4), lambda a, b: a))
    add(t + "apply_", c(x(), lambda a: a))
    add(t + "map2_", c(x(), T(4), T(4), lambda a, b, cc: a))
    add(t + "__setitem__", c(T(4), 0, 1.0), c(T(4), 0, T()))
    add(t + "as_subclass", c(x(), torch.nn.Parameter))
    add(t + "unsafe_split_with_sizes", c(T(4), [2, 2]))
    add(t + "is_set_to", c(x(), x()))
    add(t + "to_sparse_csr " + t + "to_sparse_csc", c(m()))
    add(t + "to_sparse_bsr " + t + "to_sparse_bsc", c(T(4, 4), (2, 2)))

    def sx():
        return torch.eye(3).mul(2).to_sparse().requires_grad_()

    add(t + "coalesce " + t + "indices " + t + "values " + t + "is_coalesced", c(sx().coalesce()))
    add(t + "smm", c(sp(), m()))
    add(t + "sspaddmm", c(sp(), sp(), m()))
    add(t + "sparse_mask", c(m(), sp().coalesce()))
    add(t + "crow_indices " + t + "col_indices", c(torch.eye(3).to_sparse_csr()))
    add(t + "ccol_indices " + t + "row_indices", c(torch.eye(3).to_sparse_csc()))
    add("torch.crow_indices_copy torch.col_indices_copy", c(torch.eye(3).to_sparse_csr()))
    add("torch.ccol_indices_copy torch.row_indices_copy", c(torch.eye(3).to_sparse_csc()))
    add("torch.indices_copy torch.values_copy", c(sp().coalesce()))
    add(t + "to", c(x(), torch.float64), c(x(), torch.int64), c(x(), "cpu"), c(x(), torch.float32))
    add(t + "__dlpack__", c(x()))
    add(t + "__array_wrap__", c(x(), __import__("numpy").ones(4, dtype="float32")))
    add(t + "__rpow__", c(x(), 2.0))
    add("torch.slice_inverse " + t + "slice_inverse", c(T(2, 3), m(), 0, 0, 2, 1))
    add(t + "ldexp_", c(x(), T(4)))

    def two():
        return torch.tensor([1.0, 2.0, 0.0]).requires_grad_()

    for n in ("__eq__", "__ne__", "not_equal", "not_equal_", "bool"):
        H[t + n] = [c(two(), two())] if n != "bool" else [c(two())]
    H["torch.where"] = [c(torch.tensor([True, False]), T(2), T(2))]
    H[t + "where"] = [c(T(2), torch.tensor([True, False]), T(2))]
    H["torch.einsum"] = [c("ij,jk->ik", m(), m())]
    H["torch.nn.functional.embedding"] = [c(integers(3), T(4, 3))]
    H["torch.pca_lowrank"] = H["torch.svd_lowrank"] = [c(T(4, 4, dt=torch.float64), 2)]
    H["torch.polygamma"] = H["torch.special.polygamma"] = [c(1, T(3))]
    H[t + "float_power_"] = [c(T(3, dt=torch.float64), 2)]
    H["torch.sparse_bsr_tensor"] = H["torch.sparse_bsc_tensor"] = [
        c(torch.tensor([0, 1]), torch.tensor([0]), T(1, 2, 2), (2, 2))
    ]
    # a number in the place of a tensor is another overload, which keeps other things
    for n in ("pow", "float_power", "xlogy"):
        add(f"torch.{n} {t}{n}", c(x(), 2.0))
    # what makes a scalar of a vector, or a vector of scalars
    H[t + "__getitem__"] = [c(T(4), 0), c(T(4), slice(0, 2)), c(T(2, 3), 0), c(T(4), torch.tensor([0, 1]))]
    H["torch.stack"] = [c([T(), T()]), c([T(2), T(2)])]
    H["torch.einsum"] += [c("i,i->", T(3), T(3))]
    H["torch.nn.functional.linear"] = [c(T(3), T(3)), c(T(2, 3), T(4, 3), T(4))]
    H["torch.normal"] = [c(T(3), T(3)), c(T(3), 1.0)]
    H["torch.floor_divide"] = [c(T(3), 0.2), c(T(3), T(3))]
    H["torch.nn.functional.unfold"] = [c(T(1, 2, 4, 4), 2)]
    H["torch.svd"] = H["torch.linalg.svd"] = H[t + "svd"] = [c(T(3, 3))]
    H = {k: v for k, v in H.items() if v}
    return H


def opinfo_samples():
    """name -> (OpInfo, accessor).  Samples are made lazily in the child."""
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except Exception as e:
        return {}, f"{type(e).__name__}: {e}"
    out = {}
    for op in op_db:
        for n in [op.name] + [a.name for a in op.aliases]:
            full = n if n.startswith("torch.") else "torch." + n
            out.setdefault(full, []).append(op)
        for v in (op.method_variant, op.inplace_variant):
            n = getattr(v, "__name__", None)
            if n and hasattr(torch.Tensor, n):
                out.setdefault("torch.Tensor." + n, []).append(op)
        for a in op.aliases:
            for n in (a.name, a.name + "_"):
                if hasattr(torch.Tensor, n):
                    out.setdefault("torch.Tensor." + n, []).append(op)
        base = op.name.split(".")[-1]
        if hasattr(torch, base + "_") and op.inplace_variant is not None:
            out.setdefault(f"torch.{base}_", []).append(op)
        if op.name == base and op.name in dir(torch.Tensor):
            listed = out.setdefault("torch.Tensor." + base, [])
            if op not in listed:
                listed.append(op)
    return out, None


DTYPES = [torch.float32, torch.float64, torch.complex64]


def ask(t):
    return t.detach().clone().requires_grad_() if floating(t) else t


def samples_of(name, ops, H):
    n = 0
    for op in ops:
        dts = [d for d in DTYPES if d in op.supported_dtypes("cpu")] or [
            d for d in (torch.int64, torch.bool, torch.uint8) if d in op.supported_dtypes("cpu")
        ]
        if not dts:
            continue
        rg = dts[0].is_floating_point or dts[0].is_complex
        try:
            gen = op.sample_inputs("cpu", dts[0], requires_grad=rg and op.supports_autograd)
            force = rg and not op.supports_autograd
            for got, s in enumerate(gen):
                args, kw = (s.input, *s.args), dict(s.kwargs)
                if force:  # argmax, comparisons, ...: ask for the gradient all the same
                    args, kw = rebuild(args, ask), rebuild(kw, ask)
                yield args, kw
                n += 1
                if got + 1 >= MAX_SAMPLES:
                    break
        except Exception as e:
            if n == 0:
                sys.stderr.write(f"{name}: sample_inputs: {type(e).__name__} {str(e)[:100]}\n")
    yield from H.get(name, [])
