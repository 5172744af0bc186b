"""Errors of DDP, FSDP and collectives in the script."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="device-map-auto",
        title="You can't train a model that has been loaded with `device_map='auto'` in any distributed mode",
        patterns=(
            r"been loaded with `device_map='auto'` in any distributed mode",
            r"loaded in \S+(?: or \S+)? precision on a different device than the one you're training on",
            r"model contains `DTensor` parameters, which is incompatible with DDP",
            r"precision on multiple devices(?:\.| in any distributed mode)",
        ),
        cause="device_map='auto' spreads one model over all GPUs, and each rank needs a whole model of its own",
        probe="grep -n device_map in the script and its configuration",
        fix="remove device_map, or set device_map={'': int(os.environ['LOCAL_RANK'])}. A model too large for one GPU: "
        "FSDP or DeepSpeed ZeRO-3",
        link="https://github.com/huggingface/accelerate/issues/2682",
    ),
    Entry(
        id="ddp-unused-parameters",
        title="Expected to have finished reduction in the prior iteration before starting a new one",
        patterns=(
            r"Expected to have finished reduction in the prior iteration",
            r"Parameter(?:s| indices| names) which did not receive grad for rank (?P<rank>\d+): ?(?P<reason>[\w.]+(?:,? [\w.]+)?)",
            r"It looks like your LightningModule has parameters that were not used in producing the loss",
            r"your module has parameters that(?: were not used in producing loss)?",
            r"rank \d+ - Invalid to reduce Param \d+ with None gradient",
        ),
        context=r"Parameter(?:s| indices| names) which did not receive grad for rank (?P<rank>\d+): ?(?P<reason>[\w.]+(?:,? [\w.]+)?)",
        cause="some parameters of the model[ (such as {reason})] did not contribute to the loss on a rank. DDP (or ZeRO stage 2) "
        "waits for their gradients",
        probe="repeat with TORCH_DISTRIBUTED_DEBUG=DETAIL, which reports the parameters",
        fix="freeze unused layers (requires_grad_(False)), or use DistributedDataParallel(..., "
        "find_unused_parameters=True). DeepSpeed: zero_optimization.ignore_unused_parameters true",
        link="https://github.com/pytorch/pytorch/issues/57473",
    ),
    Entry(
        id="ddp-marked-twice",
        title="Expected to mark a variable ready only once; marked as ready twice",
        patterns=(r"Expected to mark a variable ready only once", r"has been marked as ready twice"),
        cause="a parameter gets two gradients in one backward pass. Common reasons are activation checkpointing with "
        "use_reentrant=True, a layer that is used twice, or two forward passes",
        probe="repeat with TORCH_DISTRIBUTED_DEBUG=DETAIL, which reports the parameter",
        fix="checkpoint(..., use_reentrant=False). In transformers: gradient_checkpointing_kwargs={'use_reentrant': "
        "False}. Otherwise DistributedDataParallel(..., static_graph=True)",
        link="https://github.com/huggingface/accelerate/issues/3536",
    ),
    Entry(
        id="ddp-sizes-lost",
        title="DDP expects same model across all ranks, but ... has inconsistent 0 params",
        patterns=(
            r"DDP expects same model across all ranks, but Rank (?P<rank>\d+) has (?P<params>\d+) params, while rank (?P<other>\d+) has inconsistent (?P<others>0|\d{7,}) params",
        ),
        cause="rank {rank} never got the number of parameters of rank {other}, but {others}: the models can be equal. NCCL "
        "does not really connect these ranks (GID index, interface or HCA between nodes), or two ranks use "
        "one GPU. Or rank {other} is in another call, for example to save or to load the best model",
        probe="the last lines of rank {other}; NCCL_DEBUG=INFO shows the interface and GID of each rank; `ddpkit test` shows GPUs and network",
        fix="between nodes: export NCCL_SOCKET_IFNAME=eth0, NCCL_IB_GID_INDEX=3 and the right NCCL_IB_HCA, "
        "or to test NCCL_IB_DISABLE=1. On one node: torch.cuda.set_device(LOCAL_RANK) first; to test "
        "NCCL_P2P_DISABLE=1. If rank {other} is elsewhere, wrap the model at the same point on all ranks",
        link="https://github.com/SWivid/F5-TTS/issues/1008",
    ),
    Entry(
        id="ddp-model-differs",
        title="DDP expects same model across all ranks",
        patterns=(
            r"DDP expects same model across all ranks, but Rank (?P<rank>\d+) has (?P<params>\d+) params, while rank (?P<other>\d+) has inconsistent (?P<others>[1-9]\d{0,5})\b",
            r"(?:params|replicas\[\d+\])\[\d+\] in this process with sizes .* appears not to match (?:sizes|strides) of the same param in process",
            r"rebuilt parameter indices size is not same as original model parameters size",
            r"bucket_count == per_bucket_sizes\.size\(\) INTERNAL ASSERT FAILED",
            r"grad\.(?:numel|device|scalar_type)\(\) == bucket_view\.\w+\(\) (?:INTERNAL )?ASSERT FAILED",
        ),
        cause="the ranks built models of different shapes or memory formats, or the model changed after DDP wrapped it: configuration, "
        "vocabulary, seed or channels_last differ",
        probe="print the number of parameters in each rank",
        fix="build the model from the same configuration on all ranks, after torch.cuda.set_device(LOCAL_RANK). Do not add or "
        "freeze parameters, nor run backward without DDP's forward, after it is wrapped",
        link="https://github.com/NJU-PCALab/STAR/issues/44",
    ),
    Entry(
        id="collectives-mismatch",
        title="Detected mismatch between collectives on ranks",
        patterns=(
            r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+) is running inconsistent collective: "
            r"CollectiveFingerPrint\(OpType=(?P<own>\w+(?:, TensorShape=\[[\d, ]*\])?)",
            r"Detected mismatch between collectives on ranks\.(?: Rank (?P<rank>\d+) is running)?(?: collective: "
            r"CollectiveFingerPrint\((?:SequenceNumber=(?P<number>\d+)(?:, )?)?OpType=(?P<call>\w+(?:, TensorShape=\[[\d, ]*\])?).*?"
            r" Rank (?P<other>\d+) is running collective: (?:CollectiveFingerPrint\((?:SequenceNumber=\d+(?:, )?)?OpType=)?"
            r"(?P<othercall>\w+(?:, TensorShape=\[[\d, ]*\])?))?"
            r"(?:.*differ in the following aspects:\s*(?P<aspects>.*\S))?",
            r"Mismatched (?:allreduce|allgather|broadcast|ALLREDUCE|ALLGATHER|BROADCAST|reducescatter|alltoall) ",
            r"Mismatched (?:MPI|collective) operations",
            r"Mismatched data types: One rank",
            r"Mismatched root ranks: One rank",
            r"Cannot apply desired operation due to shape mismatches",
            r"Impossible to apply the desired operation due to inadequate shapes",
            r"Unable to unpickle data from other workers",
            r"Forward order differs across ranks: rank (?P<rank>\d+)",
        ),
        cause="[rank {rank} called {call}, and rank {other} {othercall}: ][{ahead}: ][rank {rank} called {own}: ]"
        "[they differ in {aspects}: ]the ranks did not make the same calls with equal shapes. "
        "Common reasons[, as not every rank calls {frame} at this step,] are a collective under `if rank == 0`, uneven "
        "data, and a part of the model that a rank skips",
        probe="the message contains both calls; the tracebacks of both ranks show the lines",
        fix="make the same calls in the same order on every rank: move the collective out of the condition, and pad or "
        "drop the last batch. Run each part of the model for every batch, also for one without images["
        ", as the sizes of {same} differ here]",
        reads="mismatch",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/19045",
    ),
    Entry(
        id="no-process-group",
        title="Default process group has not been initialized",
        patterns=(
            r"Default process group has not been initialized",
            r"Default process group is not initialized",
            r"is not initialized in the world group map",
            r"Invalid process group specified(?: or has been destroyed)?\.?$",
            r"DeepSpeed backend not set, please initialize it using init_process_group",
            r"Group .* is not registered, please create group with torch\.distributed\.new_group API",
            r"assert torch\.distributed\.deprecated\._initialized",
            r"Distributed backend is not initialized\. Please set dist_init_required",
        ),
        cause="a collective was called before init_process_group or after destroy_process_group, or with a group that is not "
        "of this process group",
        probe="grep -n 'process_group' train.py",
        fix="call ddpkit.distributed.torch.init() or torch.distributed.init_process_group() first, in every process "
        "that uses collectives",
        link="https://docs.pytorch.org/docs/stable/distributed.html#initialization",
    ),
    Entry(
        id="process-group-twice",
        title="trying to initialize the default process group twice",
        patterns=(r"trying to initialize the default process group twice",),
        cause="init_process_group was called twice: by the script and by a library (accelerate, Lightning, deepspeed)",
        probe="grep -rn 'init_process_group' .",
        fix="call it only if torch.distributed.is_initialized() returns False",
        link="https://docs.pytorch.org/docs/stable/distributed.html#initialization",
    ),
    Entry(
        id="no-backend-for-device",
        title="No backend type associated with device type cpu; Tensors must be CUDA and dense",
        patterns=(
            r"No backend type associated with device type (?P<device>\w+)",
            r"Tensors must be CUDA and dense",
        ),
        cause="a CPU tensor was passed to a collective of NCCL, which supports only GPU tensors",
        probe="the traceback shows the call",
        fix="move the tensor to the GPU first, or use init_process_group(backend='cpu:gloo,cuda:nccl'). In a frame of DDP: "
        "model.to(device) before DDP(model), with all buffers and metrics",
        link="https://docs.pytorch.org/docs/stable/distributed.html#backends",
    ),
    Entry(
        id="invalid-group-rank",
        title="Global rank is not part of group; the global rank is not in the group",
        patterns=(
            r"(?i)\bglobal rank \d+ is not part of (?:the )?(?:parent )?group",
            r"[Ww]orld[ _]size:? \(?(?P<world>\d+)\)? is not divisible by",
            r"\w*parallel_size \(\d+\) must divide world size \((?P<world>\d+)\)",
            r"Mesh should not be bigger than default world size(?: (?P<world>\d+))?, but found (?P<wanted>\d+) ranks",
            r"new group's rank should be within the the world_size set by init_process_group",
            r"new group's world size should be less or equal to the world size set by init_process_group",
            r"Rank (?P<outside>\d+) is out of range\. Valid ranks are 0 to .*world_size=(?P<world>\d+)",
            r"split group's size should be less or equal to the world_size set by init_process_group",
            r"Invalid parallel dims: (?P<layout>.*\S)",
            r"world_size \((?P<world>\d+)\) is not equal to (?P<layout>tensor_model_parallel_size .*\S)",
            r"DeviceMesh only support homogeneous hardware, but found (?P<world>\d+) ranks",
            r"[Ww]orld[_ ]size \(?(?P<world>\d+)\)? must be divisible by",
            r"\(global_num_gpus / pp_size\) / mp_size (?P<layout>\[.*\]) must be a whole number",
            r"in Lightning, but the product \((?P<layout>\d+ \* \d+)\) does not match the world size \((?P<world>\d+)\)",
            r"Error: (?P<layout>\w+ \(\d+\)) must divide distributed world size \((?P<world>\d+)\)",
            r"Error: (?P<layout>data_parallel_size \(\d+\) \* \w+ \(\d+\)) must equal world_size \((?P<world>\d+)\)",
            r"(?P<layout>`data_parallel_size=\d+` and `\w+=\d+`) multiplied should equal the world size \((?P<world>\d+)\)",
            r"gloo/context\.cc:\d+\] rank < size\. \d+ vs (?P<world>\d+)",
            r"NCCL WARN \w+ : invalid root (?P<outside>\d+) \(root should be in the 0\.\.\d+ range\)",
            r"Assertion failed: (?P<layout>mpiSize == tp \* pp)",
            r"World size (?P<world>\d+) is (?:greater than|not divisible by) the product of the specified parallelism degrees",
            r"Error: (?P<layout>sequence_parallel_degree \(\d+\)) must (?:be less than or equal to|evenly divide) world_size \((?P<world>\d+)\)",
        ),
        cause="the number of ranks[, {world},] does not match the parallel layout[: {layout}][, which takes {wanted}], or a "
        "rank calls a collective of a group to which it does not belong",
        probe="echo $WORLD_SIZE; compare with the tensor, pipeline and data parallel sizes",
        fix="start as many ranks as the product of the parallel sizes (-n, -N), or change a size. In new_group, name only ranks "
        "that exist",
        link="https://docs.pytorch.org/docs/stable/distributed.html#groups",
    ),
    Entry(
        id="mesh-dimension-unknown",
        title="Invalid mesh_dim_names ('dp_cp',) specified. Valid mesh_dim_names are ['tp']",
        patterns=(
            r"Invalid mesh_dim_names? (?P<asked>.*?) specified\. Valid mesh_dim_names are (?P<valid>\[.*?\])",
            r"Mesh dimension '(?P<asked>\w+)' does not exist",
            r"Cannot slice a DeviceMesh without mesh_dim_names",
            r"mesh_shape and mesh_dim_names should have same length",
            r"Mesh '(?P<asked>\w+)' is not available\. Ensure the corresponding parallelism dimension is enabled",
        ),
        cause="the code uses a dimension of the device mesh[, {asked},] that this mesh does not have[: it has {valid}]. A "
        "parallel size of 1 often leaves its dimension out",
        probe="print(device_mesh) on rank 0: its shape and its mesh_dim_names",
        fix="give each dimension a name in init_device_mesh(..., mesh_dim_names=(...)), and select a named one. If the "
        "size of that dimension is 1, skip the code for it",
        link="https://docs.pytorch.org/tutorials/recipes/distributed_device_mesh.html",
    ),
    Entry(
        id="collective-sizes",
        title="output tensor size must be equal to world_size times input tensor size",
        patterns=(
            r"output tensor size must be equal to world_size times input tensor size",
            r"input tensor must be the same size as output size times world size",
            r"All tensor operands to scatter/gather must have the same (?:size|number of elements)",
            r"Tensor list (?:input|output|operands) to scatter/gather must match number of collective participants",
            r"Split sizes doesn't match total dim 0 size",
            r"Number of tensor splits not equal to group size",
            r"Tensor's dim 0 does not divide equally across group size",
            r"ProcessGroupGloo::\w+: invalid tensor (?:size|type) at index \d+",
            r"\b[Ii]nvalid tensor (?:size|type) at index \d+ \(expected \(?\S+",
        ),
        cause="tensors of a collective do not fit each other or the number of ranks. Both all_gather and scatter need equal "
        "shapes. The list or the output needs one part for each rank",
        probe="print(tensor.shape, tensor.dtype, dist.get_world_size(group)) before the call in the traceback",
        fix="pad the tensors, or gather their sizes first, and make the list as long as the group. Objects of any size: "
        "all_gather_object. With ZeRO-3: change no parameter's dtype or shape after deepspeed.initialize",
        link="https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_into_tensor",
    ),
    Entry(
        id="object-collective-device",
        title="ncclInvalidUsage in all_gather_object, gather_object or broadcast_object_list",
        needs=r"\bin (?:all_gather_object|gather_object|broadcast_object_list|scatter_object_list)\b",
        patterns=(r"\bncclInvalidUsage\b",),
        explains=("nccl-error", "nccl-warning"),
        cause="a collective of Python objects ran with NCCL before this rank chose its GPU. It then uses the current one, "
        "which is GPU 0 on all ranks",
        probe="print(rank, torch.cuda.current_device()) before the call in the traceback",
        fix="call torch.cuda.set_device(LOCAL_RANK) right after the start. Or use a gloo group for objects: "
        "new_group(backend='gloo')",
        link="https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_object",
    ),
    Entry(
        id="object-collective-broken",
        title="EOFError: Ran out of input, in _tensor_to_object of all_gather_object, gather_object or broadcast_object_list",
        needs=r"\bin (?:_tensor_to_object|all_gather_object|gather_object|broadcast_object_list|scatter_object_list|recv_object_list)\b",
        patterns=(
            r"EOFError: Ran out of input",
            r"UnpicklingError: ",
            r"MemoryError$",
            r"Trying to create tensor with negative dimension -\d{7,}",
        ),
        explains=(
            "checkpoint-broken",
            "weights-are-text",
            "weights-cut-off",
            "host-out-of-memory",
        ),
        cause="a collective of Python objects, such as all_gather_object, got bytes that are no object, or a size that makes no sense. The ranks are in "
        "different collectives, or the data was lost on its way",
        probe="repeat with TORCH_DISTRIBUTED_DEBUG=DETAIL, which compares the calls of all ranks",
        fix="make the same calls in the same order on every rank, also under `if rank == 0`. With NCCL, call "
        "torch.cuda.set_device(LOCAL_RANK) first, or use a gloo group for objects: new_group(backend='gloo')",
        instead=(
            Instead(
                of=("checkpoint-broken",),
                near=r"/torch/distributed/distributed_c10d\.py|/fairseq/(?:distributed_utils|distributed/utils)\.py",
            ),
        ),
        link="https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_object",
    ),
    Entry(
        id="fsdp-mixed-dtypes",
        title="Must flatten tensors with uniform dtype; FlatParameter requires uniform dtype",
        patterns=(
            r"Must flatten tensors with uniform `?(?P<what>dtype|requires_grad)",
            r"FlatParameter`? requires uniform `?(?P<what>dtype|requires_grad)",
            r"Cannot flatten integer dtype tensors",
            r"Integer parameters are unsupported",
            r"FSDP expects uniform original parameter (?P<what>dtype)",
            r"Only Tensors of floating point and complex dtype can require gradients",
            r"Requires uniform (?P<what>dtype) across all gradients",
            r"FSDP expects uniform reduce (?P<what>dtype)",
            r"FSDP reduce-scatter expects uniform gradient (?P<what>dtype)",
        ),
        cause="FSDP combines parameters of different types (bf16 and fp32, quantised, frozen) in one flat parameter",
        probe="print({p.dtype for p in model.parameters()}) before FSDP",
        fix="FSDP(..., use_orig_params=True), with the whole model in one dtype. A model in 4 bits: "
        "bnb_4bit_quant_storage=torch.bfloat16, the dtype of the rest; 8 bits do not work with FSDP. FSDP2: call fully_shard "
        "apart on the modules of another dtype",
        link="https://github.com/huggingface/peft/issues/484",
    ),
    Entry(
        id="inplace-modified",
        title="one of the variables needed for gradient computation has been modified by an inplace operation",
        patterns=(
            r"variables needed for gradient computation has been modified by an inplace operation",
            r"leaf Variable that requires grad is being used in an in-place operation",
            r"is a view and is being modified inplace",
            r"is a view and its base or another view of its base has been modified inplace",
        ),
        cause="a tensor was modified in place, and backward needs it as it was. Under DDP, a second forward pass also "
        "broadcasts buffers (BatchNorm) again",
        probe="with torch.autograd.set_detect_anomaly(True), the traceback shows the line",
        fix="x = x + y instead of x += y, ReLU(inplace=False), and torch.no_grad() around changes of a parameter. Under "
        "DDP: DistributedDataParallel(..., broadcast_buffers=False)",
        link="https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-operations-with-autograd",
    ),
    Entry(
        id="backward-twice",
        title="Trying to backward through the graph a second time",
        patterns=(r"Trying to backward through the graph a second time",),
        cause="backward was called twice on one graph. A hidden state or a loss is kept from the previous step",
        probe="the traceback shows the call",
        fix="call detach() on values that are kept for the next step",
        link="https://docs.pytorch.org/docs/stable/notes/autograd.html",
    ),
    Entry(
        id="no-grad",
        title="element 0 of tensors does not require grad and does not have a grad_fn",
        patterns=(r"element \d+ of tensors does not require grad and does not have a grad_fn",),
        cause="the loss does not depend on a trainable parameter. All parameters are frozen, detach() or no_grad() "
        "breaks the graph, or checkpointing gets frozen inputs",
        probe="print([n for n, p in model.named_parameters() if p.requires_grad])",
        fix="unfreeze the parameters to train. With activation checkpointing: model.enable_input_require_grads(), or "
        "use_reentrant=False",
        link="https://docs.pytorch.org/docs/stable/notes/autograd.html",
    ),
    Entry(
        id="ddp-model-device",
        title="device_ids and output_device arguments only work with single-device/multiple-device GPU modules, but got module parameters {device(type='cpu')}",
        patterns=(
            r"DistributedDataParallel's input module must be on the same type of devices.*locate in (?P<devices>\{.*\})",
            r"\boutput_device arguments only work with single-device(?:/multiple-device)? (?:GPU|CUDA) modules.*module parameters (?P<devices>\{.*\}|on device \S+)",
            r"SyncBatchNorm expected input tensor to be on GPU",
        ),
        cause="the model is not on the rank's own GPU when DDP or FSDP wraps it[: its parameters are {devices}]",
        probe="print({p.device for p in model.parameters()}) before DDP",
        fix="call model.to(torch.device('cuda', LOCAL_RANK)) before DistributedDataParallel(model, device_ids=[LOCAL_RANK]). "
        "For a model on CPUs or on several GPUs (device_map), omit device_ids and output_device. FSDP takes device_id=LOCAL_RANK",
        link="https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
    ),
    Entry(
        id="nothing-to-train",
        title="DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient; optimizer got an empty parameter list",
        patterns=(
            r"\w*DistributedDataParallel is not needed when a module doesn't have any parameters",
            r"Expected at least one parameter\. \(Reducer at ",
            r"optimizer got an empty parameter list",
        ),
        cause="the model has no parameter to train. All are frozen, or the model was built in another place than where "
        "its parameters were collected",
        probe="print([n for n, p in model.named_parameters() if p.requires_grad])",
        fix="set requires_grad_(True) on the parameters to train. For a frozen model (a teacher, a VAE): do not wrap it in "
        "DDP",
        link="https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
    ),
    Entry(
        id="wrapped-attribute",
        title="'DistributedDataParallel' object has no attribute 'generate'",
        patterns=(
            r"'(?P<wrapper>DistributedDataParallel|DataParallel|FullyShardedDataParallel|DeepSpeedEngine)' object has no attribute '(?P<name>\w+)'",
        ),
        cause="the script uses {name} of the model, and the model is wrapped in {wrapper}, which does not have it",
        probe="grep -rn '\\.{name}' of the script",
        fix="use model.module.{name}, or unwrap first: accelerator.unwrap_model(model).{name}. With FSDP and ZeRO-3, gather "
        "the parameters first (FSDP.summon_full_params), as model.module holds only a part of them",
        link="https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
    ),
    Entry(
        id="model-not-wrapped",
        title="AttributeError: 'FastSpeech2' object has no attribute 'module'",
        patterns=(r"'(?P<model>\w+)' object has no attribute 'module'(?!\w)",),
        explains=("packages-differ",),
        cause="the script uses model.module, which only a wrapped model has, and this {model} is not wrapped. The script was started "
        "with one process or GPU, without its launcher, or it unwraps the model twice",
        probe="print(type(model)); echo $WORLD_SIZE $LOCAL_RANK; the command line of the start",
        fix="start it as its authors do (torchrun --nproc-per-node N). For one GPU, `getattr(model, 'module', model)` in place of "
        "model.module works with both",
        link="https://github.com/bowenc0221/panoptic-deeplab/issues/7",
    ),
    Entry(
        id="sharded-parameter-used",
        title="'weight' must be 2-D; The tensor has a non-zero number of elements, but its data is not allocated yet",
        patterns=(
            r"'weight' must be 2-D",
            r"has a non-zero number of elements, but its data is not allocated yet",
            r"\bsetStorage: .*are out of bounds for storage of size 0",
            r"AssertionError: \{'id': .*'status': 'NOT_AVAILABLE'",
            r"returned an invalid gradient at index \d+ - got .* but expected shape compatible with \[0\]",
            r"assigned grad has data of a different size",
            r"Expects storage to be allocated",
            r"Expects tensor to be unsharded with size",
            r"Cannot writeback when the (?:parameter|gradient) shape changes",
            r"RuntimeError: weight should have at least three dimensions",
            r"RuntimeError: mat2 must be a matrix, got 1-D tensor",
            r"The size of tensor a \(0\) must match the size of tensor b \(\d{3,}\)",
            r"assert param\.ds_status == ZeroParamStatus\.AVAILABLE, param\.ds_summary\(\)\s*AssertionError",
            r"size mismatch, got input \(\d+\), mat \(\w+\), vec \(0\)",
        ),
        cause="a parameter is used while it is empty: FSDP or ZeRO-3 has split it over the ranks. Its module is called "
        "outside of the wrapped model's forward, its weight is read directly, or two modules share it",
        probe="the traceback shows the call; grep -n 'module\\.\\|summon_full_params\\|GatheredParameters' in the script",
        fix="call the wrapped model itself, not model.module or a part of it. Otherwise gather first: "
        "FSDP.summon_full_params(model), or deepspeed.zero.GatheredParameters(params). Put modules with shared weights into "
        "one FSDP unit",
        link="https://docs.pytorch.org/docs/stable/fsdp.html",
    ),
    Entry(
        id="fsdp-view-modified",
        doubtful=True,
        title="Output 0 of ViewBackward0 is a view and its base or another view of its base has been modified inplace",
        patterns=(
            r"Output \d+ of ViewBackward0 is a view and its base or another view of its base has been modified inplace",
        ),
        needs=r"(?i)fully_sharded_data_parallel|\bfsdp",
        explains=("inplace-modified",),
        cause="the parameters of FSDP 1 are views of one flat tensor, which FSDP writes anew for each forward. A module used one that "
        "belongs to the unit of another module: a shared embedding, or a unit that was cut between the two",
        probe="print(model) shows the units as FullyShardedDataParallel; the last frame of the script names the module",
        fix="auto_wrap_policy=transformer_auto_wrap_policy with the class of the blocks (accelerate: TRANSFORMER_BASED_WRAP), so that "
        "modules with shared parameters stay in the outermost unit",
        link="https://github.com/pytorch/pytorch/issues/79605",
    ),
    Entry(
        id="checkpoint-recompute-differs",
        title="torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass",
        patterns=(
            r"Recomputed values for the following tensors have different metadata",
            r"A different number of tensors was saved during the original forward and recomputation",
            r"trying to save more tensors during recomputation",
            r"(?P<call>aten\.\w+\.\w+) (?:invocation index \d+ )?encountered during backward,? but not found in storage",
        ),
        cause="activation checkpointing computed a part of the model again in backward, and got other tensors than in "
        "forward. Parameters are split (ZeRO-3), autocast is on in one of both only, or the code depends on a state that "
        "changed",
        probe="the shapes and types in the message; torch.utils.checkpoint.set_checkpoint_debug_enabled(True) shows the calls",
        fix="checkpoint(..., use_reentrant=True); transformers: gradient_checkpointing_kwargs={'use_reentrant': True}. "
        "Or run forward and backward under the same autocast, and switch caches off: use_cache=False",
        link="https://docs.pytorch.org/docs/stable/checkpoint.html",
    ),
    Entry(
        id="ddp-graph-changed",
        title="Your training graph has changed in this iteration: not compatible with static_graph set to True",
        patterns=(
            r"Your training graph has changed in this iteration",
            r"\bexpect_autograd_hooks_ INTERNAL ASSERT FAILED",
        ),
        cause="with static_graph=True, DDP expects the same parameters and one backward in each step. A step used others, or "
        "called backward a second time on one forward",
        probe="grep -rn static_graph in the script and its configuration",
        fix="remove static_graph=True, and use find_unused_parameters=True if some parameters are not used in each step. "
        "Add several losses up, and call backward once",
        link="https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
    ),
    Entry(
        id="batch-of-one",
        title="Expected more than 1 value per channel when training, got input size torch.Size([1, 512])",
        patterns=(
            r"Expected more than 1 value per channel when training, got input size (?P<shape>torch\.Size\(\[[\d, ]*\]\))",
        ),
        cause="batch normalization got one sample ({shape}) and needs two. Often it is the last batch of an epoch, which is "
        "smaller",
        probe="len(dataset) modulo (batch size * ranks)",
        fix="DataLoader(..., drop_last=True), a larger batch for each rank, or SyncBatchNorm",
        link="https://docs.pytorch.org/docs/stable/data.html",
    ),
    Entry(
        id="fp16-parameters",
        title="ValueError: Attempting to unscale FP16 gradients",
        patterns=(r"Attempting to unscale FP16 gradients",),
        cause="the parameters themselves are fp16, and mixed precision with a gradient scaler needs them in fp32",
        probe="print({p.dtype for p in model.parameters() if p.requires_grad})",
        fix="load the model in fp32 (without torch_dtype=torch.float16 or .half()), and keep --fp16. With LoRA, convert the "
        "trained parameters to fp32. Or use bf16, which needs no scaler",
        link="https://docs.pytorch.org/docs/stable/amp.html",
    ),
    Entry(
        id="dtype-not-implemented",
        title="\"LayerNormKernelImpl\" not implemented for 'Half'",
        patterns=(r"\"(?P<kernel>\w+)\" not implemented for '(?P<dtype>\w+)'",),
        cause="torch has no kernel {kernel} for {dtype} on this device. Mostly a model in half precision runs on the CPU: no "
        "GPU is visible, or the model was not moved to one",
        probe="print({(p.device, p.dtype) for p in model.parameters()}); python -c 'import torch; "
        "print(torch.cuda.is_available())'",
        fix="move the model and the input to the GPU. On CPUs, use fp32 or bf16: model.float()",
        link="https://docs.pytorch.org/docs/stable/amp.html",
    ),
    Entry(
        id="index-out-of-range",
        title="IndexError: index out of range in self; Target 10 is out of bounds",
        patterns=(
            r"IndexError: index out of range in self",
            r"IndexError: Target (?P<label>-?\d+) is out of bounds",
        ),
        cause="[the label {label} is not below the number of classes. Or ]a token id is not below the size of an "
        "embedding: the tokenizer, the vocabulary or the longest position does not match the model",
        probe="print the minimum and maximum of labels and token ids before the step; print(len(tokenizer), "
        "model.get_input_embeddings().weight.shape)",
        fix="correct the data or the size of the layer: model.resize_token_embeddings(len(tokenizer)), a truncated "
        "sequence, the number of classes, ignore_index for padding",
        link="https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html",
    ),
    Entry(
        id="element-out-of-range",
        title="IndexError: index 0 is out of bounds for dimension 0 with size 0",
        patterns=(
            r"IndexError: index (?P<index>-?\d+) is out of bounds for (?:dimension|axis) (?P<dimension>\d+) with size 0\b",
        ),
        cause="the code reads element {index} of dimension {dimension}, which has no elements. The tensor is empty: a batch without samples, or "
        "a weight that ZeRO-3 or FSDP has split",
        probe="print the shape before the line of the traceback, and the smallest and largest index",
        fix="leave out empty batches, or a data set without samples. For a weight outside of the forward "
        "pass: deepspeed.zero.GatheredParameters(weight), or FSDP.summon_full_params(model)",
        link="https://deepspeed.readthedocs.io/en/latest/zero3.html#deepspeed.zero.GatheredParameters",
    ),
    Entry(
        id="dataset-empty",
        title="num_samples should be a positive integer value, but got num_samples=0",
        patterns=(
            r"num_samples should be a positive integer value, but got num_samples=0",
            r"Error: .*need at least one array to concatenate",
            r"Error: No valid data found in (?P<path>[\w.-]+?)\.?$",
            r"Error: Found 0 images in subfolders of (?P<path>\S+?)\. ",
            r"Error: .*No labels found in (?P<path>[^,\s]+)",
            r"FileNotFoundError: .*Error loading data from (?P<path>[^,\s]+)",
        ),
        cause="the data set is empty on this rank: its path or pattern matches no file, a filter removed all samples, or "
        "there are fewer shards than ranks",
        probe="on this host: ls the data directory; print(len(dataset))",
        fix="correct the path of the data, or mount it on this host. Use at least one shard for each rank",
        link="https://docs.pytorch.org/docs/stable/data.html",
    ),
    Entry(
        id="devices-differ",
        title="Expected all tensors to be on the same device",
        patterns=(
            r"Expected all tensors to be on the same device",
            r"RuntimeError: all tensors must be on devices\[0\]",
            r"Input type \(torch\.cuda\.\w+\) and (?:weight|bias) type \(torch\.[A-Z]\w+\) should be the same",
            r"Input type \((?:torch\.)?[A-Z]\w+\) and (?:weight|bias) type \(torch\.cuda\.\w+\) should be the same",
            r"indices should be either on .* or on the same device as the indexed tensor",
            r"Pointer argument \(at \d+\) cannot be accessed from Triton",
            r"invalid gradient at index \d+ - expected device ",
            r"attempting to assign a gradient with device type ",
            r"module must have its parameters and buffers on device cuda:\d",
            r"Tensor for (?:argument #\d+ )?'\w+' is on (?:CPU|GPU|cuda|cpu)",
            r"argument should be a 1D CPU int64 tensor, but got 1D cuda",
            r"Expected object of (?:device type|backend) \w+ but got (?:device type|backend) \w+",
            r"arguments are located on different GPUs",
            r"expected both inputs to be on same device",
            r"Tensor on device \S+ is not on the expected device",
            r"\w+ : \w+ allocated on device \d+ mismatchs with NCCL device \d+",
            r"[Ee]xpected self and mask to be on (?:the )?same device",
        ),
        cause="a tensor and the model are on different devices. A batch was not moved, or the script uses cuda:0 "
        "instead of the rank's own GPU. Or device_map='auto' has spread the model over the GPUs of all ranks",
        probe="grep -n 'cuda:0\\|\\.cuda()' train.py",
        fix="use device = torch.device('cuda', LOCAL_RANK) everywhere, and batch.to(device). Under a launcher: no device_map='auto', but "
        "device_map={'': LOCAL_RANK}",
        link="https://docs.pytorch.org/docs/stable/notes/cuda.html",
    ),
    Entry(
        id="data-parallel-cpu",
        title="AssertionError: Gather function not implemented for CPU tensors",
        patterns=(r"Gather function not implemented for CPU tensors",),
        cause="DataParallel collects what forward() returns, and a tensor of it is on the CPU. forward() makes it without device=, or calls "
        "cpu()",
        probe="print the device of each value that forward() returns; grep -n 'torch.tensor(\\|torch.zeros(\\|\\.cpu()' in the model",
        fix="give new tensors the device of an input (device=x.device), and call cpu() outside of forward(). Or torchrun with "
        "DistributedDataParallel, which collects nothing",
        link="https://github.com/amdegroot/ssd.pytorch/issues/570",
    ),
    Entry(
        id="data-parallel-gather",
        title="Input tensor at index 3 has invalid shape [14, 14], but expected [14, 17]; Gather got an input of invalid size",
        patterns=(
            r"Input tensor at index (?P<index>\d+) has invalid shape (?P<shape>\[[\d, ]*\]), but expected (?P<expected>\[[\d, ]*\])",
            r"(?i)\bgather got an input of invalid size: got (?P<shape>.+?), but expected (?P<expected>\[[\d, ]*\]|[\dx]+)",
        ),
        cause="DataParallel collects the outputs of its GPUs, and they differ in more than the first dimension: {shape} and {expected}. "
        "The last batch was too small to be split evenly, each GPU padded its part alone, or the batch is not the first dimension",
        probe="print the shapes that forward() returns, on each GPU; the length of the last batch",
        fix="torchrun with DistributedDataParallel in place of DataParallel. Otherwise drop_last=True in the DataLoader, pad to the "
        "length of the whole batch (pad_packed_sequence: total_length=), and return only a loss (use_cache=False)",
        link="https://docs.pytorch.org/docs/stable/notes/faq.html#pack-rnn-unpack-with-data-parallelism",
    ),
    Entry(
        id="shapes-differ",
        title="mat1 and mat2 shapes cannot be multiplied; size of tensor a must match",
        patterns=(
            r"mat1 and mat2 shapes cannot be multiplied",
            r"a and b must have same reduction dim, but got \[",
            r"The size of tensor a \(\d+\) must match the size of tensor b \(\d+\)",
            r"Expected input batch_size \(\d+\) to match target batch_size",
            r"Sizes of tensors must match except in dimension",
            r"The expanded size of the tensor \(\d+\) must match the existing size",
            r"output with shape \[.*\] doesn't match the broadcast shape",
            r"shape '\[.*\]' is invalid for input of size",
            r"shape mismatch: value tensor of shape",
            r"weight of size .* to have \d+ channels, but got \d+ channels instead",
            r"invalid gradient at index \d+ - got \[",
            r"running_mean should contain \d+ elements not \d+",
            r"The shape of the mask \[.*\] at index \d+ does not match the shape of the indexed tensor",
            r"Calculated padded input size per channel: .*greater than actual input size",
            r"Expected \d-dimensional input for \d-dimensional weight",
            r"Expected \dD .* input to \w+, but got input of size",
            r"which does not broadcast with previously seen size",
            r"split_with_sizes expects split_sizes to sum exactly",
        ),
        context=r"UserWarning: Was asked to gather along dimension 0, but all input tensors were (?P<gathered>scalars)",
        cause="the shapes of two tensors do not match[. A warning above shows the likely reason: nn.DataParallel made a vector of "
        "the {gathered} that its replicas returned]. In general, a layer has a wrong size, or the samples of a batch differ in length",
        probe="the traceback shows the line[, {place}]; print the shapes at that line",
        fix="[use DistributedDataParallel, or take .mean() of the gathered {gathered}. Otherwise ]correct the size of the layer, or "
        "pad in a collate_fn",
        link="https://docs.pytorch.org/docs/stable/notes/broadcasting.html",
    ),
    Entry(
        id="dtypes-differ",
        title="mat1 and mat2 must have the same dtype; expected scalar type Half but found Float",
        patterns=(
            r"mat1 and mat2 must have the same dtype",
            r"self and mat2 must have the same dtype",
            r"expected scalar type (?P<one>\w+) but found (?P<other>\w+)",
            r"expected m1 and m2 to have the same dtype",
            r"\bto have the same dtype, but got",
            r"Input type \((?P<one>[\w.:]+)\) and (?:weight|bias) type \((?P<other>[\w.:]+)\) should be the same",
            r"Found dtype (?P<one>\w+) but expected (?P<other>\w+)",
            r"Expected object of scalar type (?P<one>\w+) but got scalar type (?P<other>\w+)",
            r"to have one of the following scalar types: .*; but got (?P<one>[\w.]+) instead",
            r"requires the source and destination dtypes match, got",
            r"attempting to assign a gradient with dtype ",
            r"Expected attn_mask dtype to be bool or ",
        ),
        cause="two tensors have different types[, {one} and {other}]. A part of the model or the input does not have the "
        "type of the mixed precision",
        probe="print({p.dtype for p in model.parameters()}) and the input's dtype",
        fix="run the forward pass under torch.autocast, or cast the input to the model's dtype",
        link="https://docs.pytorch.org/docs/stable/amp.html",
    ),
    Entry(
        id="loss-is-nan",
        doubtful=True,
        title="Loss is nan; Function returned nan values in its 0th output",
        patterns=(
            r"(?i)\bloss is nan\b(?!.*skip)",
            r"(?i)\bloss is inf(?:inite)?\b.*stopping",
            r"Function '(?P<function>\w+)' returned nan values",
            r"Current loss scale already at minimum",
            r"Loss became infinite or NaN at iteration",
            r"Minimum loss scale reached \(",
            r"(?:Rank (?P<rank>\d+): )?found (?:NaN|Inf) in local (?:grad|forward)",
            r"Rank (?P<rank>\d+), node (?P<host>[\w.-]+), .*Unexpected result (?:nan|inf)",
            r"probability tensor contains either `inf`, `nan`",
            r"to satisfy the constraint .*, but found invalid values",
            r"ValueError: Input (?:\w+ )?contains NaN",
            r"matrix contains invalid numeric entries",
            r"for gradients from `parameters` is non-finite",
            r"FloatingPointError: gradients are Nan/Inf",
            r"(?i)error: nan (?:values? )?(?:(?:was|were) )?(?:found|detected|encountered) in (?:the )?\w*(?:loss|grad)",
            r"(?:NaN|Inf) detected in output of \S+, shape:",
            r"all elements of (?:input|target) should be between 0 and 1",
        ),
        cause="the loss or an output became NaN or infinite. The learning rate is too large, fp16 overflows, or a sample is invalid",
        probe="torch.autograd.set_detect_anomaly(True) reports the operation",
        fix="use bf16 instead of fp16, a lower learning rate, or gradient clipping. Check the batch at which it began",
        link="https://docs.pytorch.org/docs/stable/notes/amp_examples.html",
    ),
    Entry(
        id="loss-scale-floor",
        title="OVERFLOW! Skipping step. Attempted loss scale: 1, reducing to 1",
        # A scale that falls from a large number, 65536 to 32768, is healthy.
        patterns=(
            r"Attempted loss scale: (?P<scale>1(?:\.0)?|0?\.\d+), reducing to (?P=scale)(?![\d.]*\d)",
            r"reducing loss scale to (?P<scale>0\.\d+|\d(?:\.\d+)?e-\d+)",
        ),
        explains=("loss-is-nan",),
        cause="fp16 overflows, and the loss scale cannot fall any more ({scale}). Each such step is skipped: the model "
        "does not learn. It was trained in bf16 (T5 and most newer ones), the learning rate is too large, or the loss "
        "is NaN",
        probe="the lines with OVERFLOW: how many of the steps are skipped; the first step at which the loss is NaN",
        fix="use bf16 (DeepSpeed: bf16.enabled; Trainer: --bf16), or fp32 on GPUs without bf16. Otherwise a lower "
        "learning rate, with a warm-up and gradient clipping",
        link="https://github.com/huggingface/transformers/issues/14531",
    ),
    Entry(
        id="checkpoint-world-size",
        title="The checkpoint being loaded used a DP world size of 256 but the current world size is 2",
        patterns=(
            r"checkpoint being loaded used a DP world size of (?P<saved>\d+) but the current world size is (?P<now>\d+)",
            r"value from checkpoint \((?P<saved>\S+)\) is not equal to the input argument value \((?P<now>\S+?)\)",
            r"checkpoint (?:was saved|was created) with (?:world[_ ]size|tensor model parallel size|\w+ ranks)\D*(?P<saved>\d+)",
            r"dp_degree is inconsistent before and after checkpoint",
        ),
        cause="the checkpoint was saved with {saved|another number of} ranks or another parallel layout[, and this run has "
        "{now}]. Its optimizer states are split for the old number",
        probe="ls CHECKPOINT; echo $WORLD_SIZE",
        fix="start the same number of ranks, convert to a universal checkpoint (DeepSpeed: "
        "ds_to_universal.py, then load_universal), or load the weights alone "
        "(load_optimizer_states=False, zero_to_fp32.py)",
        link="https://github.com/deepspeedai/DeepSpeed/issues/3810",
    ),
    Entry(
        id="zero3-not-gathered",
        title="size mismatch for ...: the shape in current model is torch.Size([0])",
        patterns=(
            r"size mismatch for \S+: .*current model is torch\.Size\(\[0\]\)",
            r"Trying to set a tensor of shape \S.*which has shape torch\.Size\(\[0\]\)",
        ),
        explains=("checkpoint-mismatch",),
        cause="the model's parameters are empty because DeepSpeed's ZeRO-3 has partitioned them, and the weights are "
        "loaded with torch's load_state_dict",
        probe="grep -n 'zero_optimization' -A3 of the DeepSpeed configuration",
        fix="load the weights before deepspeed.initialize (without zero.Init), or inside "
        "deepspeed.zero.GatheredParameters(params, modifier_rank=0). In transformers, use from_pretrained",
        link="https://deepspeed.readthedocs.io/en/latest/zero3.html",
    ),
    Entry(
        id="checkpoint-without-prefix",
        title='Missing key(s) in state_dict: "module.conv.weight", Unexpected key(s): "conv.weight"',
        patterns=(r'Missing key\(s\) in state_dict: "(?P<prefix>module|_orig_mod|_forward_module)\.(?P<key>[^"]+)"',),
        needs=r'Unexpected key\(s\) in state_dict: .*"(?P=key)"',  # of another model, other names are unexpected
        explains=("checkpoint-mismatch",),
        cause="the model is wrapped (DDP, DataParallel, torch.compile) and its names begin with `{prefix}.`, and those of "
        "the checkpoint do not",
        probe="python -c 'import torch,sys; print(list(torch.load(sys.argv[1], map_location=\"cpu\"))[:5])' CHECKPOINT",
        fix="load before you wrap the model, or into the model inside: model.{prefix}.load_state_dict(state)",
        link="https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",
    ),
    Entry(
        id="checkpoint-with-prefix",
        title='Missing key(s) in state_dict: "conv.weight", Unexpected key(s): "module.conv.weight"',
        patterns=(
            r'Unexpected key\(s\) in state_dict: "(?P<prefix>module|_orig_mod|_forward_module)\.(?P<key>[^"]+)"',
        ),
        needs=r'Missing key\(s\) in state_dict: .*"(?P=key)"',
        explains=("checkpoint-mismatch",),
        cause="the checkpoint was saved from a wrapped model (DDP, DataParallel, torch.compile): its names begin with "
        "`{prefix}.`, and those of this model do not",
        probe="python -c 'import torch,sys; print(list(torch.load(sys.argv[1], map_location=\"cpu\"))[:5])' CHECKPOINT",
        fix="remove the prefix: `state = {name.removeprefix('{prefix}.'): value for name, value in state.items()}`. "
        "Save model.{prefix}.state_dict() in the next run",
        link="https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",
    ),
    Entry(
        id="checkpoint-mismatch",
        title="Error(s) in loading state_dict; Missing key(s); size mismatch for",
        patterns=(
            r"Error\(s\) in loading state_dict for (?P<model>\w+)",
            r"size mismatch for \S+: copying a param with shape",
            r"CheckpointingException: Global shape mismatch for loaded",
            r"Error converting the state dict\. Found unexpected key",
            r"Attempted to load weight \(torch\.Size\(.*\)\) into parameter",
            r"KeyError: '[\w.]+\.(?:weight|bias)'$",
        ),
        cause="the checkpoint belongs to another model: layers or sizes differ. If all names begin with `module.`, it "
        "was saved from inside DDP",
        probe="python -c 'import torch,sys; print(list(torch.load(sys.argv[1], map_location=\"cpu\"))[:5])' CHECKPOINT",
        fix="save model.module.state_dict() under DDP, or remove `module.` from the names. Build the model with the "
        "configuration of the checkpoint",
        link="https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",
    ),
    Entry(
        id="optimizer-state-differs",
        title="loaded state dict has a different number of parameter groups; contains a parameter group that doesn't match the size",
        patterns=(
            r"loaded state dict contains a parameter group that doesn't match the (?:size of )?optimizer's group",
            r"loaded state dict has a different number of parameter groups",
        ),
        cause="the checkpoint's optimizer state is of another set-up than this optimizer. Other parameters are trained "
        "(frozen layers, LoRA), or they are grouped in another way. Or another wrapper or number of GPUs was used (FSDP, "
        "ZeRO, apex)",
        probe="print([len(group['params']) for group in optimizer.param_groups]), and the same of the saved state",
        fix="resume with the settings, the wrapper and the number of ranks of the run that saved it. Or load the weights "
        "alone, and begin with a new optimizer (mmcv: load_from in place of resume_from)",
        link="https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.load_state_dict.html",
    ),
    Entry(
        id="checkpoint-unsafe",
        title="Weights only load failed",
        patterns=(r"Weights only load failed",),
        cause="since torch 2.6, torch.load reads only tensors by default. This file contains other objects",
        probe="python -c 'import torch; print(torch.__version__)'",
        fix="for a file that you trust: torch.load(..., weights_only=False), or torch.serialization.add_safe_globals",
        link="https://docs.pytorch.org/docs/stable/notes/serialization.html#weights-only",
    ),
    Entry(
        id="checkpoint-empty",
        title="EOFError in torch.load: the checkpoint is empty",
        patterns=(r"\bEOFError$",),
        needs=r"torch/serialization\.py|_weights_only_unpickler|pickle\.load\(",
        explains=("broken-pipe",),
        cause="the file that is loaded is empty or cut off: a run ended while it wrote it, or the disk was full",
        probe="ls -l of the file in the traceback; df -h",
        fix="use the checkpoint before it. Write to a temporary name on rank 0 only, then rename the file",
        link="https://docs.pytorch.org/docs/stable/notes/serialization.html",
    ),
    Entry(
        id="test-failed",
        title="FAILED test_loss.py::test_loss - assert 6 == 9",
        patterns=(r"(?:^|: )\bFAILED (?P<test>\S+::\S+)(?: - (?P<reason>.*))?",),
        cause="the test {test} failed[: {reason}]",
        probe="pytest -x {test}",
        fix="read the failure of that test above",
        link="https://docs.pytest.org/en/stable/how-to/output.html",
    ),
    Entry(
        id="weights-are-text",
        title="Error while deserializing header: HeaderTooLarge; invalid load key, 'v'",
        patterns=(
            r"Error while deserializing header: (?:HeaderTooLarge|header too large)",
            r"Error while deserializing header: (?:InvalidHeader\b|InvalidHeaderStart|InvalidHeaderDeserialization|invalid UTF-8|invalid JSON)",
            r"UnpicklingError: invalid load key, '[v<]'",
            r"Unsupported operand (?:118|60)\b",
        ),
        explains=("checkpoint-broken", "checkpoint-unsafe"),
        cause="the file holds no weights but text: it is a git-lfs pointer (git-lfs was not installed at the clone), or a "
        "page of a server in place of the download",
        probe="ls -l FILE; head -c 200 FILE",
        fix="in a clone: `git lfs install && git lfs pull`. Otherwise delete the file and download it again: "
        "`huggingface-cli download NAME --force-download`",
        link="https://huggingface.co/docs/hub/repositories-getting-started",
    ),
    Entry(
        id="weights-cut-off",
        title="Error while deserializing header: MetadataIncompleteBuffer, InvalidHeaderLength",
        patterns=(
            r"Error while deserializing header: (?:MetadataIncompleteBuffer|incomplete metadata)",
            r"Error while deserializing header: (?:InvalidHeaderLength|invalid header length|HeaderTooSmall|header too small)",
        ),
        explains=("checkpoint-broken",),
        cause="a safetensors file is incomplete: its download or copy was cut off, or a run ended while it saved the file",
        probe="ls -l *.safetensors, and compare the sizes with those on the model's page",
        fix="delete the file that is too small, and download it again: `huggingface-cli download NAME "
        "--force-download`. Of a checkpoint of your own, use the one before it",
        link="https://huggingface.co/docs/safetensors/index",
    ),
    Entry(
        id="checkpoint-broken",
        title="failed finding central directory; Ran out of input; the checkpoint is cut off",
        patterns=(
            r"PytorchStreamReader failed (?:finding|reading|locating)",
            r"storage has wrong (?:byte )?size: expected",
            r"Invalid magic number; corrupt file",
            r"EOFError: Ran out of input",
            r"unexpected EOF, expected \d+ more bytes",
            r"storage has wrong size: expected -?\d+ got \d+",
            r"Error while deserializing header: (?P<error>\w+)",
            r"UnpicklingError: (?:pickle data was truncated|invalid load key)",
            r"mmap can only be used with files saved with `torch\.save\((?P<path>/\S+?)?,? ?_use_new_zipfile_serialization",
            r"Unable to load weights from (?:pytorch )?checkpoint file for '[^']+' at '(?P<path>[^']+)'",
        ),
        cause="the checkpoint file[ {path}] is incomplete. A run ended while it wrote the file, the disk was full, several "
        "ranks wrote it, another rank is still writing it, or it is a git-lfs pointer",
        probe="ls -l FILE; head -c 200 FILE",
        fix="use the checkpoint before it. Write to a temporary name on rank 0 only, then rename the file. For a "
        "pointer: git lfs pull",
        link="https://docs.pytorch.org/docs/stable/notes/serialization.html",
    ),
    Entry(
        id="dtensor-mixed",
        title="aten.mm.default: got mixed torch.Tensor and DTensor; All operands must have the same mesh",
        patterns=(
            r"(?P<operation>\w+\.\w+)\.\w+: got mixed torch\.Tensor and DTensor",
            r"operands in (?P<operation>\w+\.\w+)\.\w+ must have the same mesh",
            r"\bgot mixed torch\.Tensor and DTensor",
            r"DTensor does not support cross-mesh operation on (?P<operation>\w+\.\w+)",
            r"(?P<operation>\w+\.\w+)\.\w+: DTensor does not support cross-mesh operation",
            r"Cross device mesh comm not supported yet",
        ),
        cause="an operation[ ({operation})] gets a parameter that is split over the ranks (DTensor), and one that is a "
        "plain tensor or of another device mesh. A part of the model was not split, or is called alone",
        probe="print({n: type(p).__name__ for n, p in model.named_parameters()}); the traceback shows the module",
        fix="call the root model that fully_shard or parallelize_module got, and no part of it. Split all modules, or use "
        "x.to_local() or x.full_tensor(). Clip the gradients of each mesh apart. Update torch for nested FSDP2 with "
        "checkpointing",
        link="https://github.com/pytorch/pytorch/issues/153354",
    ),
    Entry(
        id="fsdp2-plain-tensor",
        title="AttributeError: 'Tensor' object has no attribute 'device_mesh', in fsdp2_load_full_state_dict",
        patterns=(
            r"'(?P<kind>Tensor|Parameter)' object has no attribute '(?P<name>device_mesh|_local_tensor|placements|full_tensor|to_local)'",
        ),
        cause="the code takes each value of the state dict for a part of a split parameter (DTensor), and one is a plain tensor. "
        "Usual: a buffer, a tied weight, or a module that fully_shard did not get",
        probe="print({n: type(t).__name__ for n, t in model.state_dict().items()}): those that are no DTensor",
        fix="with accelerate or transformers: fsdp_cpu_ram_efficient_loading: false, or a newer accelerate. In code of your own, call "
        "fully_shard(model) on the root as well, and test isinstance(t, DTensor)",
        link="https://huggingface.co/docs/accelerate/concept_guides/fsdp1_vs_fsdp2",
    ),
    Entry(
        id="dtensor-operation-missing",
        title="Operator aten.select.int does not have a sharding strategy registered",
        patterns=(
            r"Operator (?P<operation>[\w.]+) does not have a sharding strategy registered",
            r"Sharding propagation failed (?:for|on)",
            r"Cannot (?:shard|flatten|unflatten) unevenly (?:distributed|sharded) tensor",
            r"Attempted to flatten sharded dimension \d",
            r"would remove or reshape sharded dimension \d",
            r"(?P<operation>[\w.]+): in-place operations that require placement changes are not supported",
            r"RuntimeError: as_strided not supported with DTensor",
        ),
        cause="this torch cannot compute an operation[ ({operation})] on a tensor that is split over ranks (DTensor)",
        probe="python -c 'import torch; print(torch.__version__)'; the traceback shows the line",
        fix="compute it on the local part or the whole: x.to_local(), x.full_tensor(), and DTensor.from_local for the "
        "result. Use torch.no_grad in place of inference_mode. Or update torch, which learns more operations",
        link="https://github.com/pytorch/pytorch/issues/152249",
    ),
    Entry(
        id="dcp-key-missing",
        title="Missing key in checkpoint state_dict: optimizer.state.0.step",
        patterns=(
            r"Missing key in checkpoint state_dict: (?P<key>\S*\w)",
            r"Missing optimizer state for parameter '(?P<key>\S+)' in checkpoint",
        ),
        cause="the sharded checkpoint has no {key}, which the model or the optimizer of this run expects. It was saved by "
        "another version, with other layers or names, or without the optimizer",
        probe="python -c 'import sys; from torch.distributed.checkpoint import FileSystemReader as R; "
        'print(*list(R(sys.argv[1]).read_metadata().state_dict_metadata)[:20], sep="\\n")\' CHECKPOINT',
        fix="build the model and the optimizer as they were at the save, with the same versions. To load what is there: "
        "DefaultLoadPlanner(allow_partial_load=True), or the model alone. Megatron: --dist-ckpt-strictness log_all",
        link="https://github.com/pytorch/pytorch/issues/148252",
    ),
    Entry(
        id="dcp-size-differs",
        title="Size mismatch between saved torch.Size([257152, 2048]) and current: torch.Size([131661824])",
        patterns=(
            r"Size mismatch between saved (?P<saved>torch\.Size\(\[[\d, ]*\]\)) and current: "
            r"(?P<now>torch\.Size\(\[[\d, ]*\]\)) for (?P<key>\S+)",
            r"req MetadataIndex\(fqn='(?P<key>[^']+)'.* mismatch sizes (?P<now>torch\.Size\(\[[\d, ]*\]\)) vs (?P<saved>torch\.Size\(\[[\d, ]*\]\)?)",
        ),
        cause="the sharded checkpoint has {key} as {saved}, and this run passes {now}[: {reason}]. The model's "
        "configuration or the kind of its state dict differs from that of the save",
        probe="print({k: v.shape for k, v in state_dict.items()}) before torch.distributed.checkpoint.load",
        fix="pass the state dict in the form of the save: get_model_state_dict(model), or FSDP.state_dict_type(model, "
        "StateDictType.SHARDED_STATE_DICT), never LOCAL_STATE_DICT. Otherwise build the model of the checkpoint",
        reads="shard",
        link="https://docs.pytorch.org/docs/stable/distributed.checkpoint.html",
    ),
    Entry(
        id="checkpoint-not-gathered",
        title="copying a param with shape torch.Size([0]) from checkpoint, the shape in current model is torch.Size([50265, 768])",
        patterns=(
            r"copying a param with shape torch\.Size\(\[0\]\) from checkpoint",
            r"copying a param with shape torch\.Size\(\[1\]\) from checkpoint, .*current model is torch\.Size\(\[\d+, \d",
            r"Attempted to load weight \(torch\.Size\(\[0\]\)\) into parameter",
            r"start \(\d+\) \+ length \(\d+\) exceeds dimension size \(0\)",
        ),
        needs=r"from checkpoint|into parameter|weight_loader|load_weights",
        explains=("checkpoint-mismatch",),
        cause="the checkpoint has empty tensors in place of weights. It was saved from a model that ZeRO-3 or FSDP had "
        "partitioned, and the parts were not gathered",
        probe='python -c \'import sys, torch; print({k: v.shape for k, v in torch.load(sys.argv[1], map_location="cpu").'
        "items()})' CHECKPOINT",
        fix="make the weights from DeepSpeed's own checkpoint: python zero_to_fp32.py CHECKPOINT_DIRECTORY OUTPUT. For the "
        "next: stage3_gather_16bit_weights_on_model_save true, or accelerator.get_state_dict(model). "
        "For vLLM: deepspeed.zero.GatheredParameters(params) around the update, or ZeRO stage 2",
        link="https://github.com/huggingface/sentence-transformers/pull/1215",
    ),
    Entry(
        id="shard-empty",
        title="size mismatch: copying a param with shape torch.Size([0, 17]), the shape in current model is torch.Size([1, 17])",
        explains=("checkpoint-mismatch",),
        patterns=(
            r"size mismatch for (?P<key>\S+): copying a param with shape torch\.Size\(\[0(?:, \d+)+\]\) from checkpoint",
            r"size mismatch for (?P<key>\S+): .*current model is torch\.Size\(\[0, ",
        ),
        cause="a rank has no part of {key}: the first size of this tensor is less than the number of ranks, or does not "
        "divide by it. The checkpoint itself is the right one",
        probe="print({n: p.shape for n, p in model.named_parameters()}) before the model is split",
        fix="update torch, as older releases cannot load such parts. Or use fewer ranks for this dimension, and do not split "
        "small modules (fully_shard on larger ones)",
        link="https://github.com/pytorch/pytorch/issues/136228",
    ),
    Entry(
        id="scaler-without-gradients",
        title="AssertionError: No inf checks were recorded for this optimizer",
        patterns=(r"No inf checks were recorded",),
        cause="the gradient scaler of fp16 found no gradient in the parameters of this optimizer. They are frozen, not used "
        "in the loss, or replaced after the optimizer was made",
        probe="after backward: print([(p.requires_grad, p.grad is None) for g in optimizer.param_groups for p in "
        "g['params']])",
        fix="make the optimizer after model.to(device), after DDP or FSDP and after adapters (LoRA). Call "
        "scaler.scale(loss).backward() before scaler.step. With accelerate, use accelerator.backward alone",
        link="https://github.com/huggingface/accelerate/issues/328",
    ),
    Entry(
        id="scaler-order",
        title="unscale_() has already been called on this optimizer since the last update()",
        patterns=(
            r"unscale_\(\) has already been called on this optimizer",
            r"unscale_\(\) is being called after step\(\)",
            r"\bstep\(\) has already been called since the last update",
        ),
        cause="the gradient scaler of fp16 was called twice in one step: unscale_ or step once more before update. Often "
        "gradients are clipped in each part of an accumulated step",
        probe="grep -rn 'unscale_\\|clip_grad_norm_\\|scaler\\.' of the script",
        fix="once for each step of the optimizer: unscale_, clip, scaler.step, scaler.update. transformers 4.30 does it "
        "wrong: pip install -U transformers accelerate. bf16 needs no scaler",
        link="https://github.com/huggingface/transformers/issues/23935",
    ),
    Entry(
        id="scaler-with-bf16",
        title="\"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'",
        explains=("dtype-not-implemented",),
        patterns=(r"_amp_(?:foreach_)?non_finite_check_and_unscale_(?:cuda|)_?\"? not implemented for 'BFloat16'",),
        cause="the gradients are bf16, and a gradient scaler is on, which is for fp16 alone",
        probe="print({p.dtype for p in model.parameters()}); grep -rn 'fp16\\|GradScaler' of the script and its configuration",
        fix="choose one of both: bf16 without a scaler (--bf16 without --fp16, GradScaler(enabled=False), "
        "precision='bf16-mixed'), or fp16 with parameters in fp32",
        link="https://github.com/pytorch/pytorch/issues/127176",
    ),
    Entry(
        id="fp16-constant",
        title="value cannot be converted to type at::Half without overflow",
        patterns=(r"value cannot be converted to type (?P<dtype>[\w:]+) without overflow",),
        cause="a constant of the code is too large for {dtype}. Mostly it is the value of an attention mask, such as -1e9 or "
        "the minimum of fp32",
        probe="the traceback shows the line; grep -rn 'masked_fill\\|finfo\\|-1e' of that file",
        fix="use torch.finfo(x.dtype).min in that line, or update the model's code. Or use bf16, which has the range of fp32",
        link="https://github.com/facebookresearch/fairseq/issues/3575",
    ),
    Entry(
        id="meta-tensor",
        title="NotImplementedError: Cannot copy out of meta tensor; no data!",
        explains=("devices-differ",),
        patterns=(
            r"Cannot copy out of meta tensor",
            r"should be materialized from meta device",
            r"\bTensor on device meta is not on the expected device",
            r"Tensor\.item\(\) cannot be called on meta tensors",
            r"is on the meta device, we need a `value` to put in on",
        ),
        cause="a parameter is still without data (on the device `meta`). The model was built empty on this rank, and its "
        "weights were not loaded or sent before this line",
        probe="print([n for n, p in model.named_parameters() if p.is_meta]); env | grep -E 'FSDP_|ACCELERATE_'",
        fix="FSDP with accelerate: fsdp_sync_module_states true, or fsdp_cpu_ram_efficient_loading false. Otherwise "
        "low_cpu_mem_usage=False, without device_map, or model.to_empty(device=...) and then load the weights. Update "
        "transformers and accelerate",
        link="https://github.com/huggingface/accelerate/issues/2031",
    ),
    Entry(
        id="fsdp-device",
        title="The module has CPU parameters or buffers when `sync_module_states=True`; FSDP parameters should be materialized on CPU",
        patterns=(
            r"module has CPU parameters.*sync_module_states=True",
            r"FSDP parameters should be materialized on CPU when enabling CPU offloading",
            r"Inconsistent compute device and `device_id` on rank (?P<rank>\d+)",
            r"Expects the parameter to already be moved to device",
            r"FSDP-managed module (?:unexpectedly|with parameter CPU offloading enabled) has parameters on",
            r"FSDP only supports single device modules but got params on",
            r"To support a module with both CPU and GPU params, please pass in device_id",
            r"Must flatten tensors on the same device but got both",
            r"FSDP does not support modules with different device types but got params on",
            r"Expects tensor to be on (?:the compute device|CPU) ?",
            r"Expects the `FlatParameter` to be on (?:CPU|the compute device)",
            r"Expected `FlatParameter` to be on the compute device",
        ),
        cause="FSDP finds parameters on another device than it expects: on the CPU without device_id, or on the GPU with "
        "offloading to the CPU, or on the GPU of another rank",
        probe="print({p.device for p in model.parameters()}) before FSDP",
        fix="torch.cuda.set_device(LOCAL_RANK) first, and FSDP(..., device_id=torch.cuda.current_device()). With offloading, "
        "load the weights on the CPU (FSDP2: CPUOffloadPolicy, model.to_empty(device='cpu')); accelerate: pip install -U "
        "accelerate",
        link="https://docs.pytorch.org/docs/stable/fsdp.html",
    ),
    Entry(
        id="fsdp-root",
        title="Non-root FSDP instance's `_is_root` should not have been set yet",
        patterns=(
            r"Non-root FSDP instance's `_is_root` should not have been set",
            r"state has already been lazily initialized for",
            r"requires running forward through the root module first",
            r"`(?P<call>clip_grad_norm_\(\))` should only be called on the root FSDP instance",
            r"`(?P<call>no_sync\(\))` on inner FSDP instances is not supported",
            r"FSDP auto wrapping requires modules to not already have FSDP applied",
            r"Each distinct composable distributed API can only be applied to a module once",
            r"Cannot apply `replicate\(\)` on a Module already managed by",
        ),
        cause="[{call} belongs to the whole FSDP model, and ]a part of an FSDP model was used, before the whole model or in its "
        "place. That part takes itself for the root. Or the model was wrapped twice",
        probe="the traceback shows the call; grep -n 'module\\.\\|state_dict\\|generate' in the script",
        fix="call the outermost FSDP model first, and never a part of it. Wrap the model once (no second prepare), and keep "
        "a reference model in an FSDP of its own",
        link="https://github.com/pytorch/pytorch/issues/113496",
    ),
    Entry(
        id="fsdp-layer-class",
        title="Could not find the transformer layer class to wrap in the model",
        patterns=(r"Could not find (?:a|the) transformer layer class",),
        cause="FSDP shall wrap the layers of a class, and the model has no module of that class. The name is misspelt or of "
        "another model, or none was given",
        probe="python -c 'from transformers import AutoModelForCausalLM as M; print({type(m).__name__ for m in "
        'M.from_pretrained("MODEL").modules()})\'; cat ~/.cache/huggingface/accelerate/default_config.yaml',
        fix="set fsdp_transformer_layer_cls_to_wrap to the class of this model's blocks (LlamaDecoderLayer, GPT2Block). "
        "Or choose SIZE_BASED_WRAP. If FSDP is not wanted, remove it from accelerate's default_config.yaml",
        link="https://github.com/huggingface/accelerate/issues/1943",
    ),
    Entry(
        id="ddp-compile",
        title="DDPOptimizer backend: Found a higher order op in the graph; Dynamo cannot trace DDP's Logger",
        explains=("compile-failed", "compile-unsupported"),
        patterns=(
            r"DDPOptimizer backend: Found a higher order op",
            r"does not know how to trace method `set_runtime_stats_and_log`",
            r"BackendCompilerFailed: (?:backend=')?compile_fn'? raised",
        ),
        cause="torch.compile cannot compile this model together with DDP: DDP splits the graph, or the wrapper of DDP itself "
        "is compiled",
        probe="grep -rn 'torch.compile\\|torch_compile\\|dynamo' of the script and its configuration",
        fix="set torch._dynamo.config.optimize_ddp = False, and compile the model before DDP wraps it. Or run without it: "
        "`export TORCHDYNAMO_DISABLE=1`",
        link="https://github.com/huggingface/nanoVLM/issues/61",
    ),
    Entry(
        id="optimizer-state-device",
        title="If capturable=False, state_steps should not be CUDA tensors; params, grads, exp_avgs must have same dtype, device",
        patterns=(
            r"If capturable=(?:False|True), (?:params and )?state_steps (?:should not|must) be",
            r"params, grads, exp_avgs, and exp_avg_sqs must have same dtype, device",
            r"`fused=True` requires all the params to be floating point Tensors of supported devices",
        ),
        cause="the states of the optimizer are not where its parameters are, or not of their type. They were loaded to "
        "another device, or the model moved after the optimizer was made. torch 1.12.0 does this, too",
        probe="print({(k, v.device) for s in optimizer.state.values() for k, v in s.items() if hasattr(v, 'device')}); "
        "python -c 'import torch; print(torch.__version__)'",
        fix="make the optimizer after model.to(device), then load its state with map_location='cpu': load_state_dict moves "
        "it. Update torch from 1.12.0",
        link="https://github.com/pytorch/pytorch/issues/80809",
    ),
    Entry(
        id="checkpoint-device",
        title="Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1",
        patterns=(
            r"Attempting to deserialize object on CUDA device (?P<device>\d+) but torch\.cuda\.device_count\(\) is (?P<count>\d+)",
        ),
        cause="the checkpoint was saved from GPU {device}, and this rank sees {count} GPU(s). torch.load puts each tensor "
        "where it was saved",
        probe="python -c 'import torch; print(torch.cuda.device_count())'; echo $CUDA_VISIBLE_DEVICES",
        fix="torch.load(path, map_location='cpu'), then load_state_dict copies it to the rank's GPU",
        link="https://docs.pytorch.org/docs/stable/generated/torch.load.html",
    ),
    Entry(
        id="checkpoint-without-optimizer",
        title="KeyError: 'optimizer', or 'param_groups', in optimizer.load_state_dict",
        patterns=(r"KeyError: '(?P<key>optimizer\w*|param_groups)'",),
        needs=r"load_state_dict\(|saved_groups = |state_dict\[['\"]param_groups",
        cause="the checkpoint has no `{key}`. It holds weights alone, for inference, or the state was saved in another "
        "form (DeepSpeed, a scheduler's)",
        probe="python -c 'import torch,sys; print(torch.load(sys.argv[1], map_location=\"cpu\").keys())' CHECKPOINT",
        fix="load the weights alone and begin with a new optimizer, or resume from a checkpoint that the training saved",
        link="https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",
    ),
    Entry(
        id="optimizer-group-differs",
        title="KeyError: 'bias_correction', 'capturable' or 'foreach', while a run resumes",
        patterns=(
            r"KeyError: '(?P<key>bias_correction|adamw_mode|capturable|differentiable|foreach|maximize|amsgrad|decoupled_weight_decay)'$",
        ),
        cause="a group of the optimizer has no `{key}`. Its state was saved by another optimizer or version: with ZeRO's offload to the "
        "CPU and then without it, by an older torch, or by a fused optimizer",
        probe="compare the optimizer, its offload and `pip show torch deepspeed` of both runs",
        fix="resume with the optimizer, the offload settings and the versions that saved. Otherwise load the weights alone, or set it: for g in "
        "optimizer.param_groups: g.setdefault({key}, False)",
        link="https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.load_state_dict.html",
    ),
    Entry(
        id="generator-device",
        title="Expected a 'cuda' device type for generator but found 'cpu'",
        patterns=(
            r"[Ee]xpected a '(?P<one>[\w:]+)' device type for generator but found '(?P<other>[\w:]+)'",
            r"[Ee]xpected a '(?P<one>[\w:]+)' generator device but found '(?P<other>[\w:]+)'",
        ),
        cause="random numbers are requested on {one} with a generator of {other}. Mostly the default device is the GPU, and "
        "a sampler or DataLoader has a generator of the CPU",
        probe="grep -rn 'set_default_tensor_type\\|set_default_device\\|Generator(' of the script",
        fix="do not set the default device or tensor type to CUDA. Otherwise pass "
        "DataLoader(..., generator=torch.Generator(device='cuda'))",
        link="https://github.com/pytorch/pytorch/issues/61457",
    ),
    Entry(
        id="loss-not-scalar",
        title="grad can be implicitly created only for scalar outputs",
        patterns=(r"grad can be implicitly created only for scalar outputs",),
        cause="the loss has more than one number. With nn.DataParallel, it has one for each GPU",
        probe="print(loss.shape)",
        fix="loss.mean().backward(), or reduction='mean' in the loss. Use DDP in place of DataParallel",
        link="https://github.com/huixiancheng/CENet/issues/8",
    ),
    Entry(
        id="inference-tensor",
        title="Inference tensors cannot be saved for backward",
        patterns=(
            r"Inference tensors cannot be saved for backward",
            r"Inplace update to inference tensor outside InferenceMode",
            r"Cannot set version_counter for inference tensor",
        ),
        cause="a tensor from torch.inference_mode() is used in training. Evaluation or generation made it, or a model was "
        "built or gathered in that mode",
        probe="grep -rn 'inference_mode' of the script",
        fix="use torch.no_grad() in place of torch.inference_mode() (Lightning: Trainer(inference_mode=False)), or clone the "
        "tensor",
        link="https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html",
    ),
    Entry(
        id="loss-scale-falls",
        title="OVERFLOW! Skipping step. Attempted loss scale: 4, reducing to 2, after 16, reducing to 8",
        kind="hint",
        patterns=(r"OVERFLOW! .*Attempted loss scale: (?P<scale>[248](?:\.0)?), reducing to [124]",),
        needs=r"Attempted loss scale: (?:16|32)(?:\.0)?, reducing to (?:8|16)(?![\d.]*[1-9])",
        explains=("loss-is-nan",),
        cause="fp16 overflows in step after step, and the loss scale has fallen to {scale}. Each such step is skipped, and at "
        "1 DeepSpeed ends the run",
        probe="the lines with OVERFLOW: how many of the steps are skipped; grad_norm and the loss of the steps before",
        fix="use bf16 (DeepSpeed: bf16.enabled; Trainer: --bf16), or fp32 on GPUs without bf16. Otherwise a lower learning "
        "rate, with a warm-up and gradient clipping",
        link="https://github.com/ymcui/Chinese-LLaMA-Alpaca/issues/534",
    ),
    Entry(
        id="cudagraph-capture",
        title="CUDA error: operation not permitted when stream is capturing",
        explains=("cuda-unknown-error",),
        patterns=(
            r"operation not permitted when stream is capturing",
            r"operation failed due to a previous error during capture",
            r"capturing stream has unjoined work",
        ),
        cause="a CUDA graph was recorded, with a call in between that a graph does not take. Usual: a synchronization, a copy to "
        "the CPU, a call of another thread, or a stream that did not join",
        probe="the first traceback shows the call; grep -rn 'cuda.graph\\|cuda_graph\\|reduce-overhead' of the script",
        fix="run without CUDA graphs: vLLM --enforce-eager, torch.compile without mode='reduce-overhead', Megatron without "
        "--enable-cuda-graph. In code of your own, move .item(), print and .cpu() out of the graph",
        link="https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
    ),
    Entry(
        id="scheduler-too-long",
        title="Tried to step 1002 times. The specified number of total steps is 1000",
        patterns=(
            r"Tried to step (?P<steps>\d+) times\. The (?:specified|total) number of (?:total )?steps is (?P<total>\d+)",
        ),
        cause="the schedule of the learning rate has {total} steps, and the run makes more. Its length was computed for "
        "another number of ranks, batches or epochs, or a resumed run begins at its end",
        probe="print(len(loader) * epochs // accumulation) in a rank",
        fix="total_steps = len(loader) * epochs of this rank, divided by the accumulation. accelerate steps a prepared "
        "scheduler once for each rank: multiply by accelerator.num_processes",
        link="https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.OneCycleLR.html",
    ),
    Entry(
        id="scheduler-resume",
        title="param 'initial_lr' is not specified in param_groups[0] when resuming an optimizer",
        patterns=(r"param 'initial_lr' is not specified in param_groups",),
        cause="the scheduler was made with last_epoch, for a resumed run, and the optimizer's state was not loaded before",
        probe="grep -n 'last_epoch' of the script",
        fix="load the optimizer's state before the scheduler is made. Or make the scheduler without last_epoch, and call "
        "scheduler.load_state_dict",
        link="https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
    ),
    Entry(
        id="sampler-and-shuffle",
        title="sampler option is mutually exclusive with shuffle",
        patterns=(
            r"sampler option is mutually exclusive with shuffle",
            r"DataLoader with IterableDataset: expected unspecified (?:shuffle|sampler|batch_sampler) option",
        ),
        cause="the DataLoader got a sampler, or a data set without a length, together with shuffle=True. In a distributed "
        "run, DistributedSampler does the shuffling",
        probe="grep -n 'DataLoader(' of the script",
        fix="DataLoader(..., sampler=DistributedSampler(dataset), shuffle=False), and sampler.set_epoch(epoch). Shuffle an "
        "IterableDataset in the data set",
        link="https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler",
    ),
    Entry(
        id="sample-is-none",
        title="batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'NoneType'>",
        patterns=(r"batch must contain tensors, .* found <class 'NoneType'>",),
        cause="a sample of the data set is None. The data set could not read a file, and returned nothing",
        probe="print([i for i in range(len(dataset)) if dataset[i] is None][:5])",
        fix="repair or remove that sample, or drop None in a collate_fn. Each rank still needs the same number of batches",
        link="https://docs.pytorch.org/docs/stable/data.html",
    ),
    Entry(
        id="optimizer-step-sizes",
        # Of `shapes-differ`, the frame above it decides: see ddpkit.diagnosis.log_reader.
        title="The size of tensor a must match, in the optimizer's step; Tensors of the same index must be on the same device",
        patterns=(r"Tensors of the same index must be on the same device and the same dtype except `step`",),
        cause="a gradient or a loaded state of the optimizer has another size or type than this rank's part of the parameter. "
        "The state is of another number of ranks or another wrapper. Or FSDP did not reduce the gradients of an incomplete "
        "accumulation at the end of the data",
        probe="does the run resume? If not: (batches of a rank) modulo gradient_accumulation_steps",
        fix="resume with the ranks and the wrapper of the run that saved, or with a new optimizer. Without a resume: a "
        "gradient_accumulation_steps that divides the batches of a rank, and newer transformers and accelerate",
        instead=(
            Instead(of=("shapes-differ",), near=r"/torch/optim/\w+\.py"),
            Instead(of=("shapes-differ",), reads="flat-part"),
        ),
        link="https://github.com/huggingface/transformers/issues/33413",
    ),
    Entry(
        id="fsdp-not-sharded",
        title="sharded_state_dict can only be used when parameters are flatten and sharded; Expects sharded strategy",
        patterns=(
            r"_state_dict`` can only be used when parameters are flatten and sharded",
            r"\bExpects sharded strategy\b",
        ),
        cause="FSDP does not split the parameters of this run: it has one GPU, or the strategy NO_SHARD. So they cannot be "
        "saved or gathered in parts",
        probe="echo $WORLD_SIZE; grep -rn 'state_dict_type\\|NO_SHARD\\|sharding_strategy' of the script and its configuration",
        fix="use two or more GPUs, or StateDictType.FULL_STATE_DICT (accelerate: fsdp_state_dict_type: FULL_STATE_DICT). On "
        "one GPU, run without FSDP",
        link="https://github.com/pytorch/pytorch/pull/100208",
    ),
    Entry(
        id="fsdp-scalar",
        title="FSDP doesn't support scalar parameters. Change logit_scale to a 1D tensor with numel equal to 1",
        patterns=(r"(?:FSDP|fully_shard) doesn't support scalar parameters\. Change (?P<name>\S+) to a 1D tensor",),
        cause="FSDP splits each parameter along a dimension, and {name} is a scalar, which has none",
        probe="print([n for n, p in model.named_parameters() if p.dim() == 0])",
        fix="give it one dimension: torch.nn.Parameter(torch.tensor([1.0])). Or leave it out of FSDP: ignored_states "
        "(FSDP2: ignored_params)",
        link="https://docs.pytorch.org/docs/stable/fsdp.html",
    ),
    Entry(
        id="fsdp-mesh-missing",
        title="Manual wrapping with HYBRID_SHARD requires explicit specification of process group or device_mesh",
        patterns=(
            r"Manual wrapping with \S+ requires explicit specification of process group or device_mesh",
            r"(?:fully_shard|replicate) expects a 1D(?: or 2D)? DeviceMesh but got",
            r"Please init the 2D mesh for HSDP with mesh_dim_names specified",
            r"Expected device_mesh to have ndim=2 but got",
        ),
        cause="hybrid sharding needs a device mesh of two dimensions: one of replicas, one of shards. FSDP got none, or one of "
        "another form. Full sharding needs one dimension",
        probe="print(device_mesh) before the call in the traceback",
        fix="mesh = init_device_mesh('cuda', (NODES, GPUS_PER_NODE), mesh_dim_names=('replicate', 'shard')), and pass "
        "device_mesh=mesh (FSDP2: mesh=mesh). Of a larger mesh, pass a part: mesh['dp']",
        link="https://docs.pytorch.org/tutorials/recipes/distributed_device_mesh.html",
    ),
    Entry(
        id="pipeline-layout",
        title="Expecting 4 arg_mbs but got 2; num_stages 6 must be evenly divisible by pp_size 4; PipeliningShapeError",
        patterns=(
            r"Expecting (?P<wanted>\d+) (?P<what>arg_mbs|kwarg_mbs|target_mbs|losses) but got (?P<number>\d+)",
            r"num_stages (?P<number>\d+) must be evenly divisible by pp_size (?P<wanted>\d+)",
            r"Pipeline group size (?P<wanted>\d+) cannot be larger than number of stages (?P<number>\d+)",
            r"\bInterleaved 1F1B requires the number of microbatches to be a",
            r"Tensor size \d+ is smaller than num_chunks",
            r"\bPipeliningShapeError: (?P<reason>.*\S)",
            r"\bPipeliningMetadataError: (?P<reason>.*\S)",
            r"Number of microbatches \((?P<number>\d+)\) must be greater than or equal to the number of stages \((?P<wanted>\d+)\)",
            r"Zero bubble requires the number of microbatches to be a",
            r"(?:DualPipeV|ZBV) requires (?:at least as many microbatches as stages|exactly 2 stages per rank)",
            r"\bFailed to run stage backward:",
            r"\bassert len\(output_val\) == len\(grad_val\)",
        ),
        cause="a batch, the stages and the ranks of the pipeline do not fit each other[: {reason}][: it expects {wanted} "
        "{what}, and got {number}]. Each stage gets tensors of the shape of the first step",
        probe="print the batch size, n_microbatches, the number of stages and the size of the pipeline's group",
        fix="use a batch that n_microbatches divides, also at the end of the data (drop_last=True), and equal shapes in all "
        "steps. The number of stages is a multiple of the pipeline's ranks",
        link="https://docs.pytorch.org/docs/stable/distributed.pipelining.html",
    ),
    Entry(
        id="pipeline-not-traced",
        title="It seems that we cannot capture your model as a full graph",
        patterns=(r"It seems that we cannot capture your model as a full graph",),
        cause="torch.distributed.pipelining could not trace the model to split it. Its forward depends on data, or calls what "
        "torch.export cannot trace",
        probe="torch.export.export(model, args) shows the line",
        fix="split the model yourself: a module of its layers for each rank, in PipelineStage(module, index, stages, device)",
        link="https://docs.pytorch.org/docs/stable/distributed.pipelining.html",
    ),
    Entry(
        id="collective-unsupported",
        title="Input tensor data type is not supported for NCCL process group: Short; Backend nccl does not support ...",
        patterns=(
            r"Input tensor data type is not supported for NCCL process group: (?P<reason>\w+)",
            r"(?:RuntimeError|ValueError): (?:Backend|ProcessGroup) ?(?P<backend>\w*) does not support (?P<reason>\w+)",
            r"Unconvertible NCCL type (?P<reason>\w+)",
            r"RuntimeError: Invalid scalar type$",
            r"all_reduce does not support (?P<reason>\S+) on complex tensors",
            r"(?P<backend>ProcessGroupGloo)::\w+: unsupported device type (?P<reason>\w+)",
            r"\bmonitored_barrier is only implemented for (?P<reason>GLOO) backend",
            r"Cannot use ReduceOp\.(?P<reason>\w+) with (?P<backend>Gloo|NCCL|XCCL)",
            r"ValueError: Cannot use (?P<reason>\w+) with bool",
        ),
        cause="the backend of this group[, {backend},] does not offer this collective for this type of tensor[ ({reason})]",
        probe="print(tensor.dtype, tensor.device, dist.get_backend(group)) before the call in the traceback",
        fix="convert the tensor first: bool to uint8, int16 and uint16 to int32, bfloat16 on gloo or an old torch to float32, complex with torch.view_as_real. Otherwise use "
        "a group of another backend: dist.new_group(backend='gloo') for CPU tensors, nccl for GPUs",
        link="https://docs.pytorch.org/docs/stable/distributed.html#backends",
    ),
    Entry(
        id="collective-arguments",
        title="Argument ``gather_list`` must be specified on destination rank; Expected timeout argument to be of type datetime.timedelta",
        patterns=(
            r"Argument ``(?P<argument>gather_list|scatter_list)`` must (?:NOT )?be specified on \S+ ranks?",
            r"\b(?P<argument>src|dst|source|destination) rank(?:: rank)? should not be the same as the rank of the current process",
            r"\b(?P<argument>Tensor list) must (?:be nonempty|have \d+ elements)",
            r"Must provide (?P<argument>object_gather_list) on dst rank",
            r"source rank must provide non-None (?P<argument>scatter_object_input_list)",
            r"Invalid usage of tensors with different dtypes",
            r"RuntimeError: (?P<argument>Tensors must be contiguous)",
            r"ValueError: (?P<argument>Tensors must be contiguous)",
            r"Expected (?P<argument>timeout) argument to be of type ?datetime\.timedelta",
            r"Expected argument (?P<argument>scatter_object_output_list) to be a list of size at least 1",
            r"Invalid function argument\. Expected parameter `(?P<argument>\w+)` of type (?:List\[)?torch\.Tensor",
        ),
        cause="a call of torch.distributed got an argument that it does not accept on this rank[: {argument}]",
        probe="the traceback shows the call; print(dist.get_rank(group)) before it",
        fix="pass lists only on the rank that gathers or scatters, and None elsewhere. Ranks are global ones. Tensors: one "
        "dtype, and tensor.contiguous(). In a model that is wrapped, before it: p.data = p.data.contiguous() for each parameter. A timeout: "
        "datetime.timedelta(minutes=30)",
        link="https://docs.pytorch.org/docs/stable/distributed.html#collective-functions",
    ),
    Entry(
        id="device-id-index",
        title="init_process_group device_id parameter must be an accelerator with an index; not safe to split any process groups",
        patterns=(
            r"device_id parameter must be an? (?:accelerator|cuda device) with an (?:index|id)",
            r"Please use a device_id with index",
            r"No device associated with the default pg, not safe to split any process groups",
        ),
        cause="init_process_group does not know the rank's GPU: device_id is missing, or has no number",
        probe="grep -rn 'init_process_group' of the script: its argument device_id",
        fix="init_process_group('nccl', device_id=torch.device('cuda', LOCAL_RANK)). On a CPU, omit it. It also makes NCCL's groups at once, "
        "which split_group needs",
        link="https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.init_process_group",
    ),
    Entry(
        id="uneven-inputs",
        title="Detected at least one rank that exhausted inputs. Throwing across all ranks",
        patterns=(
            r"RuntimeError: Rank (?P<rank>\d+) exhausted all inputs",
            r"Detected at least one rank that exhausted inputs\. Throwing across all ranks",
        ),
        cause="a rank[ ({rank})] had fewer batches than the others. The script's join(throw_on_early_termination=True) ends the run then",
        probe="print(len(loader)) in each rank",
        fix="give all ranks the same number of batches: DistributedSampler(drop_last=True), or shards of one size. Or let the others continue: "
        "join without throw_on_early_termination",
        link="https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html",
    ),
    Entry(
        id="dcp-async-backend",
        title="A CPU backend must be enabled for async save",
        patterns=(r"A CPU backend must be enabled for async save",),
        cause="torch.distributed.checkpoint.async_save runs collectives on the CPU, and this run has only NCCL",
        probe="grep -rn 'init_process_group\\|async_save' .",
        fix="init_process_group('cpu:gloo,cuda:nccl'). Or save with torch.distributed.checkpoint.save",
        link="https://docs.pytorch.org/docs/stable/distributed.checkpoint.html",
    ),
    Entry(
        id="rpc-timeout",
        title="RPC ran for more than set timeout (60000 ms) and will now be marked with an error",
        kind="generic",
        patterns=(
            r"RPC ran for more than set timeout \((?P<ms>\d+) ms\)",
            r"Followers \[(?P<late>.*?)\] timed out in _all_gather",
        ),
        cause="a call of torch.distributed.rpc got no answer in time[ from {late}]. The other worker died, is busy or hangs, or "
        "a firewall blocks the ports between the nodes",
        probe="the last lines of the other worker; on its host: py-spy dump -p PID",
        fix="read the log of the other worker. If it is only slow: TensorPipeRpcBackendOptions(rpc_timeout=600). On several "
        "networks: export TP_SOCKET_IFNAME=INTERFACE",
        link="https://docs.pytorch.org/docs/stable/rpc.html",
    ),
    Entry(
        id="optimizer-values-differ",
        title="Rank 1 has different values for step: 8016.0. Other ranks: 7870.0",
        patterns=(
            r"Rank (?P<rank>\d+) has different values for (?P<name>\w+): (?P<own>\S+?)\. Other ranks: (?P<others>\S+)",
        ),
        cause="the optimizers of the ranks have another {name}: {own} on rank {rank}, and {others} elsewhere. Ranks skipped "
        "steps apart from each other, or loaded different states. FSDP cannot gather such a state",
        probe="print(rank, {k: v.get('step') for k, v in optimizer.state.items()}) on each rank",
        fix="with FSDP and fp16, torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler in place of GradScaler: it skips "
        "a step on all ranks. Skip no step on one rank alone, and load one checkpoint on all",
        link="https://github.com/pytorch/pytorch/pull/113765",
    ),
    Entry(
        id="tensor-to-numpy",
        title="TypeError: can't convert cuda:0 device type tensor to numpy; Can't call numpy() on Tensor that requires grad",
        patterns=(
            r"can't convert (?:CUDA|(?P<device>\S+) device type) tensor to numpy",
            r"Can't call numpy\(\) on Tensor that requires grad",
        ),
        cause="NumPy, a metric or a plot got a tensor that is on a GPU[, on {device}] or is part of the graph. After a reduction "
        "between ranks, values are tensors on the GPU",
        probe="the traceback shows the call",
        fix="pass tensor.detach().cpu().numpy(), or tensor.item() for one value. bfloat16: tensor.float() first",
        link="https://github.com/ygjwd12345/TransDepth/issues/5",
    ),
    Entry(
        id="tensor-to-scalar",
        title="ValueError: only one element tensors can be converted to Python scalars; a Tensor with 2 elements cannot be converted to Scalar",
        patterns=(
            r"only one element tensors can be converted to Python scalars",
            r"a Tensor with (?P<count>\d+) elements cannot be converted to Scalar",
        ),
        cause="item(), int() or float() got a tensor of several values[, {count}]. On several GPUs it is often one value of each: "
        "DataParallel and a gather return them all. Otherwise the script expects a batch of one",
        probe="print(tensor.shape) before the call that the traceback shows",
        fix="loss = loss.mean() before item(), or index one value. Use DistributedDataParallel in place of DataParallel",
        link="https://github.com/cyclomon/UNSB/issues/6",
    ),
    Entry(
        id="backend-unknown",
        title="Unknown c10d backend type HCCL; Unknown backend",
        patterns=(
            r"Unknown c10d backend type (?P<backend>\S+)",
            r"Unknown backend '(?P<backend>[^']+)'\. Specify a 'device:backend' string",
        ),
        cause="this torch has no backend {backend} for process groups. The package that brings it was not imported before "
        "init_process_group, the name is misspelt, or this torch does not know pairs such as cuda:nccl at that place",
        probe="python -c 'import torch.distributed as d; print(d.Backend.backend_list)'; grep -rn 'backend' of the configuration",
        fix="import the package of the device first (torch_npu for hccl, torch_musa, torch_mlu), or name a backend that the "
        "list shows. With a mesh of several dimensions: backend='nccl' in place of 'cuda:nccl'",
        link="https://github.com/pytorch/pytorch/issues/159200",
    ),
    Entry(
        id="dtensor-not-taken",
        title="found no DeviceMesh from dtensor args for c10d.broadcast_.default",
        patterns=(
            r"found no DeviceMesh from dtensor args(?: for (?P<operation>[\w.]+\w))?",
            r"Cannot find device mesh from args for op : ?(?P<operation>[\w.]*\w)",
        ),
        cause="a collective or a fused optimizer[ ({operation})] got tensors that are already split over the ranks (DTensor). "
        "It does not take them: the model was split before DeepSpeed, DDP or the script sent it",
        probe="print({type(p).__name__ for p in model.parameters()}) before the call in the traceback",
        fix="split the model in one way alone: load it without tp_plan or device_map under DeepSpeed or DDP. In own "
        "code pass x.to_local() or x.full_tensor(), and use the optimizer with fused=False, foreach=False",
        link="https://github.com/pytorch/pytorch/issues/150401",
    ),
    Entry(
        id="optimizer-not-gathered",
        title="Optimizer state has not been consolidated on this rank",
        patterns=(r"RuntimeError: Optimizer state has not been consolidated on this rank",),
        cause="the script saves the state of an optimizer that is split over the ranks (ZeroRedundancyOptimizer, OSS), and did "
        "not gather it on this rank first",
        probe="grep -nE 'consolidate_state_dict|optimizer.state_dict' train.py",
        fix="call optimizer.consolidate_state_dict(to=0) on all ranks, and then optimizer.state_dict() on rank 0 alone",
        link="https://docs.pytorch.org/docs/stable/distributed.optim.html",
    ),
    Entry(
        id="fsdp-container",
        title="fully_shard does not support containers that do not implement forward: ModuleList",
        patterns=(r"ValueError: \w+ does not support containers that do not implement forward: (?P<kind>\w+)",),
        cause="FSDP shall wrap a {kind|container}, which is never called itself: its layers are. FSDP gathers weights only "
        "when the wrapped module is called",
        probe="print([n for n, m in model.named_modules() if isinstance(m, (torch.nn.ModuleList, torch.nn.ModuleDict))])",
        fix="call fully_shard on each layer of the container and then on the model. In a wrap policy, name the class of the "
        "layers. A subclass of ModuleDict with a forward of its own needs torch 2.12",
        link="https://github.com/pytorch/pytorch/issues/113794",
    ),
    Entry(
        id="mesh-not-sliced",
        title="Found the DeviceMesh have 2 dimensions; Optional kwarg `mesh_dim` needs to be specified",
        patterns=(
            r"Found the DeviceMesh have (?P<number>\d+) dimensions",
            r"Optional kwarg `mesh_dim` needs to be specified when device_mesh\.ndim > 1",
        ),
        cause="a call needs one group of ranks, and got a whole device mesh[ of {number} dimensions]. With several kinds of "
        "parallelism, each dimension is a group of its own",
        probe="print(device_mesh) before the call in the traceback: its shape and its mesh_dim_names",
        fix="pass one dimension: mesh['dp'], or mesh.get_group('dp'). In a library (float8 of torchao, an optimizer): update "
        "it, or use one kind of parallelism",
        link="https://docs.pytorch.org/tutorials/recipes/distributed_device_mesh.html",
    ),
    Entry(
        id="fsdp-optimizer-state",
        title="The state of _OptimStateKey(...) is empty. This should happen when use_orig_params=True",
        patterns=(
            r"The state of _OptimStateKey\(unflat_param_names=\('(?P<key>[^']+)'.* is empty",
            r"`optim_state_dict` must have the keys \"?state",
            r"KeyError: '(?P<part>state)'$",
        ),
        needs=r"_OptimStateKey|`optim_state_dict` must|_optim_utils\.py|in _(?:flatten|shard|load|rekey)_optim_state|optim_state_dict_to_load",
        explains=("own-exception",),
        cause="FSDP finds no state of the optimizer[ for {key}][ (no `{part}`)] in this checkpoint. A part of the model got no "
        "gradient before the save, or the state was not saved by FSDP on all ranks",
        probe='python -c \'import torch,sys; s=torch.load(sys.argv[1], map_location="cpu"); print(list(s), '
        'list(s.get("state", ()))[:5])\' OPTIMIZER',
        fix="freeze the parts that no batch uses (such as the vision tower on text alone), and save with "
        "FSDP.optim_state_dict on all ranks. To continue from this checkpoint, load the model without the optimizer",
        link="https://github.com/hiyouga/EasyR1/issues/275",
    ),
    Entry(
        id="dcp-plan-invalid",
        title="Failed to validate global plan; Key(s) present in other ranks but not this one",
        patterns=(
            r"ValueError: Failed to validate global plan(?:: (?P<reason>.*\S))?",
            r"AssertionError: Key\(s\) present in other ranks but not this one, difference: (?P<reason>.*\S)",
        ),
        cause="the ranks do not pass parts of one state dict to the sharded checkpoint[: {reason}]. The keys differ, or the "
        "parts of a tensor overlap or leave gaps",
        probe="print({k: (type(v).__name__, v.shape) for k, v in state_dict.items() if hasattr(v, 'shape')}) on each rank",
        fix="build the state dict in the same way on all ranks: get_model_state_dict(model), with DTensors of one device mesh. "
        "Keep what a rank has alone, such as its random state, out of it, or save that to a file of its own",
        link="https://docs.pytorch.org/docs/stable/distributed.checkpoint.html",
    ),
    Entry(
        id="dcp-async-writer",
        title="Checkpoint background process is dead; waiting for response from checkpointer process",
        patterns=(
            r"Checkpoint background process is dead\. Exit code: (?P<code>-?\d+)",
            r"Timed out after \S+ while waiting for response from checkpointer process",
        ),
        cause="the process that writes checkpoints in the background has ended[ (exit code {code})], or does not answer. It "
        "holds a copy of the state in the memory of the host, which was perhaps full",
        probe="free -g; dmesg -T | grep -i 'killed process'; its own traceback is above",
        fix="save with dcp.save in place of async_save, or request more memory for the host. If the file system is slow, "
        "save less often",
        link="https://docs.pytorch.org/docs/stable/distributed.checkpoint.html",
    ),
    Entry(
        id="ddp-bucket-view",
        title="parameter gradient is not the expected DDP bucket view with gradient_as_bucket_view=True",
        patterns=(r"is not the expected DDP bucket view",),
        cause="with gradient_as_bucket_view=True, each .grad must stay a view of DDP's bucket. Something replaced one: "
        "`p.grad = ...`, a second DDP around the same parameters, or two parameters with one gradient",
        probe="grep -rn '\\.grad *=' in the script and its optimizer; look for two DDP wrappers, or a second all-reduce hook",
        fix="write into the gradient (p.grad.copy_(...)) instead of replacing it, and wrap each parameter once. Or "
        "DistributedDataParallel(..., gradient_as_bucket_view=False)",
        link="https://github.com/meta-pytorch/torchrec/issues/1118",
    ),
    Entry(
        id="dcp-key-error",
        title="KeyError: 'optimizer.state...exp_avg', in create_default_local_load_plan",
        needs=r"\bin create_default_local_load_plan\b",
        patterns=(r"\bKeyError: '(?P<key>[\w.-]+)'$",),
        explains=("dcp-key-missing",),
        cause="the sharded checkpoint has no {key}, which the model or the optimizer of this run expects. It was saved with "
        "other layers or names, or without that optimizer's state",
        probe="python -c 'import sys; from torch.distributed.checkpoint import FileSystemReader as R; "
        'print(*list(R(sys.argv[1]).read_metadata().state_dict_metadata)[:20], sep="\\n")\' CHECKPOINT',
        fix="build the model and the optimizer as they were at the save: the same frozen layers, wrappers and FSDP options. "
        "Otherwise load the model alone, or DefaultLoadPlanner(allow_partial_load=True)",
        link="https://github.com/pytorch/pytorch/issues/85949",
    ),
    Entry(
        id="fsdp-full-precision",
        title="AssertionError: Expects full precision but got torch.float32",
        patterns=(r"Expects full precision but got (?P<dtype>torch\.\w+)",),
        cause="FSDP's mixed precision names {dtype}, the type that the parameters have already. FSDP of torch 1.13 and older takes that "
        "for low precision, and fails where it gathers parameters",
        probe="python -c 'import torch; print(torch.__version__)'; print the MixedPrecision of the FSDP call",
        fix="omit param_dtype from MixedPrecision, or omit mixed_precision, for training in {dtype}. Or use torch 2",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/18277",
    ),
    Entry(
        id="symmetric-memory-same-gpu",
        title="CUDASymmetricMemoryAllocator::rendezvous: detected allocations from overlapping devices from different ranks",
        patterns=(r"rendezvous: detected allocations from overlapping devices",),
        cause="two ranks of one host allocated symmetric memory on the same GPU. Each rank needs a GPU of its own",
        probe="in the script: print(rank, torch.cuda.current_device()) before symm_mem.empty",
        fix="call torch.cuda.set_device(LOCAL_RANK) before the first allocation, and start at most one rank for each GPU",
        link="https://github.com/yifuwang/symm-mem-recipes/issues/5",
    ),
    Entry(
        id="symmetric-memory-nodes",
        title="symm_mem.rendezvous: failed to send fd: No such file or directory; mismatched NVLink clique_ids",
        patterns=(
            r"\bfailed to send fd: (?P<reason>No such file or directory)",
            r"CUDASymmetricMemory::rendezvous: ranks have (?P<reason>mismatched NVLink clique_ids)",
            r"\) failed to import memory from rank (?P<peer>\d+) \(host: ",
        ),
        explains=("cuda-unknown-error", "file-missing"),
        cause="the ranks of this group do not share one NVLink domain, which torch's symmetric memory needs[: {reason}]. Without "
        "NVSwitch between the nodes (NVL72) and IMEX, it works within one node only",
        probe="nvidia-smi topo -m; nvidia-smi -q | grep -A4 Fabric; which ranks are in the group",
        fix="give symm_mem.rendezvous a group of the ranks of one node: dist.new_subgroups(). Between nodes use NCCL's collectives, "
        "or symm_mem.set_backend('NVSHMEM')",
        link="https://github.com/pytorch/pytorch/issues/171495",
    ),
    Entry(
        id="symmetric-memory-driver",
        title="CUDA driver error: invalid argument, in _SymmetricMemory.rendezvous",
        needs=r"_SymmetricMemory\.rendezvous|symm_mem\.rendezvous",
        patterns=(
            r"\bCUDA driver error: (?P<reason>[\w ]+)$",
            r"Failed to window register segment with ptr",
        ),
        explains=(
            "cuda-unknown-error",
            "invalid-device-ordinal",
            "nccl-error",
            "own-exception",
        ),
        cause="torch could not share a buffer between the GPUs as symmetric memory[: {reason}]. The GPUs have no peer access, "
        "NVLink's multicast does not work, or with NCCL no collective ran before",
        probe="nvidia-smi topo -p2p r; nvidia-smi -q | grep -A4 Fabric; systemctl status nvidia-fabricmanager",
        fix="try TORCH_SYMM_MEM_DISABLE_MULTICAST=1. With the backend NCCL call dist.barrier() before symm_mem.rendezvous. vLLM: "
        "VLLM_ALLREDUCE_USE_SYMM_MEM=0. If it worked before, restart the host",
        link="https://github.com/pytorch/pytorch/issues/167537",
    ),
    Entry(
        id="replica-without-parameters",
        title="StopIteration: Caught StopIteration in replica 0 on device 0",
        patterns=(r"\bCaught StopIteration in replica (?P<replica>\d+) on device",),
        cause="the model asks for next(self.parameters()), and the copies that nn.DataParallel makes have no parameters(). This "
        "is so since torch 1.5",
        probe="grep -rn 'next(self.parameters())' of the model and its libraries",
        fix="use DDP: torchrun --nproc-per-node=GPUS train.py. With one GPU: CUDA_VISIBLE_DEVICES=0. Or take the type and the device "
        "from an input: x.dtype, x.device",
        link="https://github.com/pytorch/pytorch/issues/40457",
    ),
    Entry(
        id="sync-batchnorm-alone",
        title="Default process group has not been initialized, in forward of SyncBatchNorm; SyncBatchNorm is only supported within DDP",
        needs=r"batch_?norm\.py\", line \d+, in (?:forward|_check\w*)|SyncBatchNorm is only supported",
        patterns=(
            r"Default process group (?:has not been|is not) initialized",
            r"SyncBatchNorm is only supported within torch\.nn\.parallel\.DistributedDataParallel",
        ),
        explains=("no-process-group",),
        cause="the model contains SyncBatchNorm, which needs a process group, and the script was started as one process without one",
        probe="grep -rn 'SyncB' in the model and its configuration; echo $WORLD_SIZE in the job",
        fix="start it with torchrun, also for one GPU: torchrun --nproc-per-node=1 train.py. Otherwise use BatchNorm: norm_cfg type "
        "'BN' (OpenMMLab), MODEL.*.NORM BN (detectron2), or mmcv.cnn.utils.revert_sync_batchnorm",
        link="https://github.com/facebookresearch/detectron2/issues/3972",
    ),
    Entry(
        id="sampler-ranks",
        title="ValueError: Invalid rank 8, rank should be in the interval [0, 7]",
        patterns=(r"Invalid rank (?P<rank>\d+), rank should be in the interval \[0, (?P<last>-?\d+)\]",),
        cause="a DistributedSampler was made for the ranks 0 to {last}, and this process is rank {rank}. Its num_replicas is the number of "
        "GPUs of one node, of another group, or was read before the process group existed",
        probe="echo $WORLD_SIZE; grep -rnE 'DistributedSampler|num_replicas|num_nodes' of the script",
        fix="leave out num_replicas and rank: the sampler then asks torch.distributed, after init_process_group. Lightning: "
        "Trainer(num_nodes=NODES), or use_distributed_sampler=False with a sampler of your own",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/17436",
    ),
    Entry(
        id="tensor-without-storage",
        title="RuntimeError: Attempted to access the data pointer on an invalid python storage",
        patterns=(r"Attempted to access the data pointer on an invalid python storage",),
        cause="the program asks a tensor for its memory while it saves the model, and the tensor has none of its own. It is a DTensor (FSDP2, "
        "tensor parallel), an FP8 or quantised one, or on a TPU",
        probe="print({type(x) for x in model.state_dict().values()})",
        fix="gather the weights first: get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)), or "
        "x.full_tensor(). Save shards with torch.distributed.checkpoint. Otherwise newer transformers, accelerate and safetensors",
        link="https://github.com/huggingface/transformers/issues/27578",
    ),
    Entry(
        id="groups-of-gpus",
        title="The arg 'group_size' (8) must not exceed the world size (2)",
        patterns=(
            r"The arg 'group_size'(?: \((?P<size>\d+)\))? must not exceed the world size(?: \((?P<world>\d+)\))?",
            r"The world size(?: \((?P<world>\d+)\))? must be divisible by 'group_size(?:=(?P<size>\d+))?'",
        ),
        explains=("invalid-group-rank",),
        cause="torch makes groups of {size|too many} ranks[, and this run has {world}]. FSDP's HYBRID_SHARD and new_subgroups take "
        "the number of GPUs that a process sees for the size of a group. The run has fewer ranks per node than GPUs",
        probe="in each rank: python -c 'import torch; print(torch.cuda.device_count())'; echo $WORLD_SIZE",
        fix="start one rank for each GPU of a node, or hide the other GPUs with CUDA_VISIBLE_DEVICES. Or pass a device_mesh or "
        "group_size, or use FULL_SHARD",
        link="https://github.com/instructlab/training/issues/678",
    ),
)
