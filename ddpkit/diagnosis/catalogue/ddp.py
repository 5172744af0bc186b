"""DDP, FSDP and collectives used in a way that cannot work."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="ddp-unused-parameters",
        title="Expected to have finished reduction in the prior iteration before starting a new one",
        patterns=(
            r"Expected to have finished reduction in the prior iteration",
            r"It looks like your LightningModule has parameters that were not used in producing the loss",
        ),
        cause="parameters of the model had no part in the loss on some rank, and DDP waits for their gradients",
        probe="once more with --env TORCH_DISTRIBUTED_DEBUG=DETAIL, which names the parameters",
        fix="take the unused layers out of the model (requires_grad_(False)), or DistributedDataParallel(..., find_unused_parameters=True)",
        link="https://github.com/pytorch/pytorch/issues/57473",
        examples=(
            (
                "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used in producing loss.",
                "https://github.com/pytorch/pytorch/issues/57473",
            ),
            (
                "RuntimeError: It looks like your LightningModule has parameters that were not used in "
                "producing the loss returned by training_step.",
                "Lightning 2.4, source",
            ),
        ),
    ),
    Entry(
        id="ddp-marked-twice",
        title="Expected to mark a variable ready only once; marked as ready twice",
        patterns=(r"Expected to mark a variable ready only once", r"has been marked as ready twice"),
        cause="a parameter gets two gradients in one backward: activation checkpointing with use_reentrant=True, a layer that is used twice, or two forward passes before one backward",
        probe="once more with --env TORCH_DISTRIBUTED_DEBUG=DETAIL, which names the parameter",
        fix="checkpoint(..., use_reentrant=False) (transformers: gradient_checkpointing_kwargs={'use_reentrant': False}); else DistributedDataParallel(..., static_graph=True)",
        link="https://github.com/huggingface/accelerate/issues/3536",
        examples=(
            (
                "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module parameter outside the `forward` function.",
                "https://github.com/huggingface/accelerate/issues/3536",
            ),
            (
                "Parameter at index 440 with name backbone.fc2.bias has been marked as ready twice.",
                "https://github.com/microsoft/FocalNet/issues/4",
            ),
        ),
    ),
    Entry(
        id="ddp-model-differs",
        title="DDP expects same model across all ranks",
        patterns=(
            r"DDP expects same model across all ranks, but Rank (?P<rank>\d+) has (?P<params>\d+) params, while rank (?P<other>\d+) has inconsistent (?P<others>\d+)",
            r"params\[\d+\] in this process with sizes .* appears not to match sizes of the same param in process",
        ),
        cause="the ranks built models of different shape: another configuration, vocabulary or seed; where it is `inconsistent 0 params`, two ranks use one GPU or the other rank is in another call",
        probe="print the number of parameters in each rank; ddpkit test NPROC for the GPUs",
        fix="build the model from the same configuration on all ranks; torch.cuda.set_device(LOCAL_RANK) before it",
        link="https://github.com/NJU-PCALab/STAR/issues/44",
        examples=(
            (
                "RuntimeError: DDP expects same model across all ranks, but Rank 3 has 2247 params, while rank 0 has inconsistent 0 params.",
                "https://github.com/NJU-PCALab/STAR/issues/44",
            ),
            (
                "RuntimeError: [1]: params[0] in this process with sizes [100, 500] appears not to match sizes of the same param in process 0.",
                "torch 2.2, source",
            ),
        ),
    ),
    Entry(
        id="collectives-mismatch",
        title="Detected mismatch between collectives on ranks",
        patterns=(r"Detected mismatch between collectives on ranks\.(?: Rank (?P<rank>\d+) is running)?",),
        cause="the ranks called different collectives, or the same with other shapes: a collective under `if rank == 0`, or uneven data",
        probe="the line itself names both calls; the tracebacks of both ranks show where",
        fix="every rank must make the same calls in the same order: move the collective out of the condition, pad or drop the last batch",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/19045",
        examples=(
            (
                "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running collective: CollectiveFingerPrint(SequenceNumber=152517, OpType=BROADCAST, TensorShape=[1]",
                "https://github.com/Lightning-AI/pytorch-lightning/issues/19045",
            ),
        ),
    ),
    Entry(
        id="no-process-group",
        title="Default process group has not been initialized",
        patterns=(r"Default process group has not been initialized",),
        cause="a collective was called before init_process_group, or after destroy_process_group",
        probe="grep -n 'process_group' train.py",
        fix="call ddpkit.distributed.torch.init() (or torch.distributed.init_process_group()) first, in every process that uses collectives",
        link="https://docs.pytorch.org/docs/stable/distributed.html#initialization",
        examples=(
            (
                "ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
                "torch 2.13, run",
            ),
        ),
    ),
    Entry(
        id="process-group-twice",
        title="trying to initialize the default process group twice",
        patterns=(r"trying to initialize the default process group twice",),
        cause="init_process_group was called twice: the script and a library (accelerate, Lightning, deepspeed) both do",
        probe="grep -rn 'init_process_group' .",
        fix="call it only where torch.distributed.is_initialized() is False",
        link="https://docs.pytorch.org/docs/stable/distributed.html#initialization",
        examples=(("ValueError: trying to initialize the default process group twice!", "torch 2.13, run"),),
    ),
    Entry(
        id="no-backend-for-device",
        title="No backend type associated with device type cpu; Tensors must be CUDA and dense",
        patterns=(
            r"No backend type associated with device type (?P<device>\w+)",
            r"Tensors must be CUDA and dense",
        ),
        cause="a tensor on the CPU was given to a collective of NCCL, which takes tensors on GPUs only",
        probe="the traceback names the call",
        fix="move the tensor to the GPU first, or init_process_group(backend='cpu:gloo,cuda:nccl')",
        link="https://docs.pytorch.org/docs/stable/distributed.html#backends",
        examples=(
            ("RuntimeError: No backend type associated with device type cpu", "torch 2.2, source"),
            ("RuntimeError: Tensors must be CUDA and dense", "torch 2.2, source"),
        ),
    ),
    Entry(
        id="invalid-group-rank",
        title="Global rank is not part of group; the global rank is not in the group",
        patterns=(
            r"Global rank \d+ is not part of group",
            r"world[ _]size \(?(?P<world>\d+)\)? is not divisible by",
        ),
        cause="the number of ranks does not fit the parallel layout, or a rank calls a collective of a group that it is not in",
        probe="echo $WORLD_SIZE; the script's tensor, pipeline and data parallel sizes",
        fix="start a number of ranks that the sizes multiply up to (-n, -N)",
        link="https://docs.pytorch.org/docs/stable/distributed.html#groups",
        examples=(
            ("ValueError: Global rank 3 is not part of group <torch.distributed.ProcessGroup>", "torch 2.6, source"),
            ("AssertionError: world size (8) is not divisible by total_model_size (3)", "Megatron-LM, source"),
        ),
    ),
    Entry(
        id="fsdp-mixed-dtypes",
        title="Must flatten tensors with uniform dtype; FlatParameter requires uniform dtype",
        patterns=(
            r"Must flatten tensors with uniform (?P<what>dtype|requires_grad)",
            r"FlatParameter`? requires uniform (?P<what>dtype|requires_grad)",
            r"Cannot flatten integer dtype tensors",
        ),
        cause="FSDP puts parameters with another type (bf16 and fp32, quantised, frozen) into one flat parameter",
        probe="print({p.dtype for p in model.parameters()}) before FSDP",
        fix="FSDP(..., use_orig_params=True), and load the whole model in one dtype",
        link="https://github.com/huggingface/peft/issues/484",
        examples=(
            (
                "ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.float32",
                "https://github.com/huggingface/trl/issues/1723",
            ),
            (
                "ValueError: `FlatParameter` requires uniform dtype but got torch.float16 and torch.float32",
                "https://github.com/huggingface/peft/issues/484",
            ),
            (
                "ValueError: Cannot flatten integer dtype tensors",
                "https://github.com/meta-llama/llama-cookbook/issues/240",
            ),
        ),
    ),
    Entry(
        id="inplace-modified",
        title="one of the variables needed for gradient computation has been modified by an inplace operation",
        patterns=(r"variables needed for gradient computation has been modified by an inplace operation",),
        cause="a tensor was changed in place before backward used it; under DDP also a buffer (BatchNorm) that a second forward pass broadcast again",
        probe="with torch.autograd.set_detect_anomaly(True): the traceback shows where",
        fix="x = x + y in place of x += y; under DDP: DistributedDataParallel(..., broadcast_buffers=False)",
        link="https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-operations-with-autograd",
        examples=(
            (
                "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [64]] is at version 3; expected version 2 instead.",
                "torch 2.2, source",
            ),
        ),
    ),
    Entry(
        id="backward-twice",
        title="Trying to backward through the graph a second time",
        patterns=(r"Trying to backward through the graph a second time",),
        cause="backward was called twice on one graph: a hidden state or a loss is kept from the step before",
        probe="the traceback names the call",
        fix="detach() what is carried into the next step",
        link="https://docs.pytorch.org/docs/stable/notes/autograd.html",
        examples=(
            (
                "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed).",
                "torch 2.13, source",
            ),
        ),
    ),
    Entry(
        id="no-grad",
        title="element 0 of tensors does not require grad and does not have a grad_fn",
        patterns=(r"element \d+ of tensors does not require grad and does not have a grad_fn",),
        cause="the loss does not depend on a parameter that is trained: all are frozen, a detach() or no_grad() stands between, or checkpointing with frozen inputs",
        probe="print([n for n, p in model.named_parameters() if p.requires_grad])",
        fix="unfreeze what is trained; with activation checkpointing: model.enable_input_require_grads(), or use_reentrant=False",
        link="https://docs.pytorch.org/docs/stable/notes/autograd.html",
        examples=(
            (
                "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
                "torch 2.13, source",
            ),
        ),
    ),
    Entry(
        id="devices-differ",
        title="Expected all tensors to be on the same device",
        patterns=(
            r"Expected all tensors to be on the same device",
            r"Input type \(\S+\) and weight type \(\S+\) should be the same",
            r"module must have its parameters and buffers on device cuda:0",
        ),
        cause="a tensor and the model are on different devices: a batch that was not moved, or cuda:0 written where the rank's own GPU is meant",
        probe="grep -n 'cuda:0\\|\\.cuda()' train.py",
        fix="device = torch.device('cuda', LOCAL_RANK) everywhere, and batch.to(device)",
        link="https://docs.pytorch.org/docs/stable/notes/cuda.html",
        examples=(
            (
                "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
                "torch 2.2, source",
            ),
            (
                "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
                "torch 2.2, source",
            ),
            (
                "RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) "
                "but found one of them on device: cpu",
                "torch 2.13, source",
            ),
        ),
    ),
    Entry(
        id="shapes-differ",
        title="mat1 and mat2 shapes cannot be multiplied; size of tensor a must match",
        patterns=(
            r"mat1 and mat2 shapes cannot be multiplied",
            r"The size of tensor a \(\d+\) must match the size of tensor b \(\d+\)",
            r"stack expects each tensor to be equal size",
            r"Expected input batch_size \(\d+\) to match target batch_size",
            r"Sizes of tensors must match except in dimension",
        ),
        cause="two tensors do not fit together: a layer's size, or samples of different length in one batch",
        probe="the traceback names the line; print the shapes there",
        fix="correct the layer's size, or pad in a collate_fn",
        link="https://docs.pytorch.org/docs/stable/notes/broadcasting.html",
        examples=(
            ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 256x10)", "torch 2.13, run"),
            (
                "RuntimeError: The size of tensor a (64) must match the size of tensor b (32) at non-singleton dimension 0",
                "torch 2.13, run",
            ),
            (
                "RuntimeError: stack expects each tensor to be equal size, but got [3, 224, 224] at entry 0 and [1, 224, 224] at entry 1",
                "torch 2.13, run",
            ),
            ("ValueError: Expected input batch_size (8) to match target batch_size (4).", "torch 2.13, run"),
            (
                "RuntimeError: Sizes of tensors must match except in dimension 0. Expected size 4 but got "
                "size 5 for tensor number 1 in the list.",
                "torch 2.13, run",
            ),
        ),
    ),
    Entry(
        id="dtypes-differ",
        title="mat1 and mat2 must have the same dtype; expected scalar type Half but found Float",
        patterns=(
            r"mat1 and mat2 must have the same dtype",
            r"expected scalar type (?P<one>\w+) but found (?P<other>\w+)",
            r"expected m1 and m2 to have the same dtype",
        ),
        cause="two tensors have different types: a part of the model or the input is not in the mixed precision's type",
        probe="print({p.dtype for p in model.parameters()}) and the input's dtype",
        fix="run the forward pass under torch.autocast, or cast the input to the model's dtype",
        link="https://docs.pytorch.org/docs/stable/amp.html",
        examples=(
            (
                "RuntimeError: mat1 and mat2 must have the same dtype, but got BFloat16 and Float",
                "torch 2.13, run",
            ),
            ("RuntimeError: expected scalar type Half but found Float", "torch 2.2, source"),
            (
                "RuntimeError: expected m1 and m2 to have the same dtype, but got: float != c10::BFloat16",
                "torch 2.13, run",
            ),
        ),
    ),
    Entry(
        id="loss-is-nan",
        doubtful=True,
        title="Loss is nan; Function returned nan values in its 0th output",
        patterns=(
            r"(?i)\bloss is nan\b",
            r"Function '(?P<function>\w+)' returned nan values",
            r"Current loss scale already at minimum",
        ),
        cause="the loss became NaN or infinite: too large a learning rate, fp16 that overflows, or a bad sample",
        probe="torch.autograd.set_detect_anomaly(True) names the operation",
        fix="bf16 in place of fp16, a lower learning rate, gradient clipping; look at the batch at which it began",
        link="https://docs.pytorch.org/docs/stable/notes/amp_examples.html",
        examples=(
            ("Loss is nan, stopping training", "MAE, source"),
            ("RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.", "torch 2.13, run"),
            (
                "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
                "DeepSpeed, source",
            ),
        ),
    ),
    Entry(
        id="checkpoint-mismatch",
        title="Error(s) in loading state_dict; Missing key(s); size mismatch for",
        patterns=(
            r"Error\(s\) in loading state_dict for (?P<model>\w+)",
            r"loaded state dict contains a parameter group that doesn't match the size",
            r"loaded state dict has a different number of parameter groups",
        ),
        cause="the checkpoint is of another model: other layers or sizes, or all names begin with `module.` (saved from inside DDP)",
        probe="python -c 'import torch,sys; print(list(torch.load(sys.argv[1], map_location=\"cpu\"))[:5])' CHECKPOINT",
        fix="save model.module.state_dict() under DDP (or take `module.` off the names); build the model with the checkpoint's configuration",
        link="https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",
        examples=(
            ("RuntimeError: Error(s) in loading state_dict for Linear:", "torch 2.13, run"),
            (
                "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
                "torch 2.13, source",
            ),
            ("ValueError: loaded state dict has a different number of parameter groups", "torch 2.13, run"),
        ),
    ),
    Entry(
        id="checkpoint-unsafe",
        title="Weights only load failed",
        patterns=(r"Weights only load failed",),
        cause="torch.load of 2.6 and later reads tensors only, unless told to trust the file, and this one holds other objects",
        probe="python -c 'import torch; print(torch.__version__)'",
        fix="for a file of your own: torch.load(..., weights_only=False), or torch.serialization.add_safe_globals",
        link="https://docs.pytorch.org/docs/stable/notes/serialization.html#weights-only",
        examples=(
            (
                "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two options",
                "torch 2.13, run",
            ),
        ),
    ),
    Entry(
        id="checkpoint-broken",
        title="failed finding central directory; Ran out of input; the checkpoint is cut off",
        patterns=(
            r"PytorchStreamReader failed (?:finding|reading|locating)",
            r"EOFError: Ran out of input",
            r"unexpected EOF, expected \d+ more bytes",
            r"Error while deserializing header: (?P<error>\w+)",
            r"UnpicklingError: (?:pickle data was truncated|invalid load key)",
        ),
        cause="a file is cut off or not what it should be: a run was ended while it wrote, the disk was full, ranks wrote it at once, or it is a git-lfs pointer",
        probe="ls -l FILE; head -c 200 FILE",
        fix="take the checkpoint before it; write to a temporary name and rename it, on rank 0 only; git lfs pull",
        link="https://docs.pytorch.org/docs/stable/notes/serialization.html",
        examples=(
            (
                "RuntimeError: PytorchStreamReader failed finding central directory: invalid header or archive is corrupted",
                "torch 2.13, source",
            ),
            ("EOFError: Ran out of input", "Python 3.11, run"),
            (
                "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
                "safetensors, source",
            ),
            ("_pickle.UnpicklingError: invalid load key, 'v'.", "Python 3.11, run"),
            (
                "RuntimeError: unexpected EOF, expected 20000 more bytes. The file might be corrupted.",
                "torch 2.13, run",
            ),
        ),
    ),
)
