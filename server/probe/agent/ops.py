"""What a few dozen torch functions mean to gradients, by the name that `__torch_function__` sees.

This is no list of what is differentiable: whether an operation cut the graph is read from its outputs at run time.
The sets say which calls need no look at all, and which ones need one although the graph stays whole.
"""

# These read about a tensor, or copy only its shape: no gradient could flow through them.
PLAIN = frozenset(
    [
        "zeros_like",
        "ones_like",
        "empty_like",
        "rand_like",
        "randn_like",
        "randint_like",
        "full_like",
        "new_zeros",
        "new_ones",
        "new_empty",
        "new_full",
        "new_tensor",
        "new_empty_strided",
        "size",
        "dim",
        "numel",
        "stride",
        "is_contiguous",
        "shape.__get__",
        "dtype.__get__",
        "device.__get__",
        "requires_grad.__get__",
        "grad_fn.__get__",
        "is_leaf.__get__",
        "ndim.__get__",
        "register_hook",
        "backward",
        "is_floating_point",
        "is_complex",
        "type",
        "__len__",
        "retain_grad",
        "element_size",
        "storage",
        "untyped_storage",
        "data_ptr",
        "_version.__get__",
        "layout.__get__",
        "is_sparse.__get__",
        "is_cuda.__get__",
        "names.__get__",
        "__repr__",
        "__format__",
        "__hash__",
        "isfinite",
        "isnan",
        "isinf",
        "_is_all_true",
        "itemsize.__get__",
        "nbytes.__get__",
        "is_quantized.__get__",
        "get_device",
        "is_nested.__get__",
        "_base.__get__",
        "is_meta.__get__",
        "output_nr.__get__",
        "is_same_size",
        "has_names",
        "is_pinned",
        "is_shared",
        "nelement",
        "ndimension",
        "volatile.__get__",
        "register_post_accumulate_grad_hook",
        "retains_grad.__get__",
        "is_inference",
    ]
)
# A Python value comes out.
VALUE = frozenset(["item", "tolist", "numpy", "__float__", "__int__", "__index__", "__array__", "__complex__"])
# Differentiable for autograd, with a derivative of zero everywhere.
ZERO = frozenset(
    ["round", "round_", "floor", "floor_", "ceil", "ceil_", "sign", "sgn", "sign_", "trunc", "trunc_", "fix"]
)
# Can turn finite numbers into inf or NaN.
RISKY = frozenset(
    [
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "div",
        "true_divide",
        "__rdiv__",
        "__truediv__",
        "__rtruediv__",
        "reciprocal",
        "pow",
        "__rpow__",
        "__pow__",
        "exp",
        "expm1",
        "norm",
        "std",
        "var",
        "logsumexp",
        "acos",
        "asin",
        "acosh",
        "atanh",
        "logit",
        "xlogy",
        "digamma",
        "lgamma",
        "cross_entropy",
        "nll_loss",
        "binary_cross_entropy",
        "kl_div",
        "log_prob",
        "normalize",
        "inverse",
        "linalg_inv",
        "cholesky",
        "linalg_cholesky",
    ]
)
ADD = frozenset(["add", "__add__", "__radd__", "__iadd__", "add_", "sum", "stack", "cat"])
ADD_NODES = ("Add", "Sum", "Stack", "Cat", "Mean", "Div", "Mul", "Squeeze", "View", "Unsqueeze", "ToCopy", "Select")
# The backward nodes of operations whose derivative can be infinite or NaN where their values are finite.
RISKY_NODES = (
    "Sqrt", "Pow", "Log", "Div", "Norm", "LinalgVectorNorm", "Std", "Var", "Acos", "Asin", "Acosh", "Atanh", "Rsqrt",
    "Reciprocal", "Exp", "Cdist", "Atan2", "Logit", "Xlogy", "BinaryCrossEntropy", "LinalgEigh", "LinalgSvd", "Lgamma",
    "Digamma", "Tan", "Logsumexp", "Prod", "Hypot", "PairwiseDistance", "LinalgInv", "LinalgCholesky", "Expm1",
)  # fmt: skip
# On the way from a broadcast difference to a loss: element by element, then reduced.
ELEMENTWISE_NODES = (
    *ADD_NODES, "Pow", "Abs", "Neg", "Sqrt", "Log", "Exp", "SmoothL1", "Huber", "Clamp", "Relu", "Softplus", "Sub",
    "Unsafe", "Clone", "Reshape", "Where", "Min", "Max", "Tanh", "Sigmoid",
)  # fmt: skip
SUBTRACT = frozenset(["sub", "__sub__", "__rsub__", "rsub", "subtract", "sub_", "__isub__"])
IN_PLACE = frozenset(["__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"])
RESHAPE = frozenset(
    [
        "reshape",
        "view",
        "squeeze",
        "unsqueeze",
        "flatten",
        "permute",
        "transpose",
        "contiguous",
        "float",
        "to",
        "__getitem__",
        "clone",
        "movedim",
        "t",
        "type_as",
        "half",
        "double",
        "bfloat16",
        "unflatten",
    ]
)
LOG_PROBABILITIES = frozenset(("nll_loss", "kl_div"))
# (where a squashed input is wrong) -> what it squashes again
SQUASHED_AGAIN = {
    "cross_entropy": ("softmax", "applies log-softmax itself"),
    "nll_loss": ("softmax", "expects log-probabilities, and gets probabilities"),
    "binary_cross_entropy_with_logits": ("sigmoid", "applies the sigmoid itself"),
}
