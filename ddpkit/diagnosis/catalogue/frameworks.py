"""Errors of training frameworks: DeepSpeed, accelerate, transformers, Lightning, Megatron and others."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="batch-not-divisible",
        title="The global train batch size (7 x 1) must be evenly divisible by the number of generations per prompt (8)",
        patterns=(
            r"Error: (?P<what>[^:\n]*(?:[Bb]atch|generations)[^:\n]*?),? (?:must|should|needs to|has to) be (?:evenly)? ?divisible by (?P<by>[^.\n]*)",
            r"Error: (?P<what>[^:\n]*(?:[Bb]atch|generations)[^:\n]*?),? (?:must|should|needs to|has to) be a? ?(?:round)? ?multiple of (?P<by>[^.\n]*)",
            r"only support equal chunk\. Got size of DataProto (?P<what>\d+) and chunk (?P<by>\d+)",
            r"(?P<what>\w*batch_size\S* \S+) should be larger than 0 after normalization",
            r"Error: (?P<what>\w*batch_size \(\d+\)) must be >= (?P<by>\S*batch_size \(\d+\))",
        ),
        cause="a batch cannot be divided evenly over ranks, generations or smaller batches[: {what} by {by}]",
        probe="grep -rnE 'batch_size|num_generations' CONFIG; echo $WORLD_SIZE",
        fix="choose sizes that divide: the global batch by the number of ranks, by the mini-batch, and by the generations of "
        "a prompt. Or start another number of ranks",
        link="https://github.com/huggingface/trl/issues/2858",
    ),
    Entry(
        id="gradients-nan",
        title="grad_norm across the workers: rank 0 = nan",
        patterns=(r"\brank +\d+ = +(?P<value>-?(?:nan|inf))\b",),
        explains=("gradients-differ", "own-exception"),
        cause="the norm of the gradients is {value} on the ranks, and fairseq compares only finite ones: the training diverged, and the "
        "ranks agree",
        probe="the loss and the gradient norm in the lines before it",
        fix="use a lower learning rate, longer warm-up, --clip-norm, or bf16 in place of fp16. Look for empty or broken samples",
        link="https://github.com/facebookresearch/fairseq/issues/1372",
    ),
    Entry(
        id="gradients-differ",
        title="Fatal error: gradients are inconsistent between workers",
        patterns=(r"gradients are inconsistent between workers", r"grad_norm across the workers:"),
        cause="fairseq compared the gradient norms of the ranks after a step, and they differ. This DDP back end does not "
        "synchronize all parameters, the GPUs differ, or a rank skipped a batch",
        probe="the table grad_norm across the workers below it; nvidia-smi -L on each node",
        fix="--ddp-backend=legacy_ddp (older: no_c10d). Use GPUs of one kind. If one rank ran out of memory: a smaller "
        "--max-tokens",
        link="https://github.com/facebookresearch/fairseq/issues/3920",
    ),
    Entry(
        id="zero-no-sync",
        title="no_sync context manager is incompatible with gradient partitioning logic of ZeRO stage 2",
        patterns=(r"no_sync context manager is incompatible with gradient partitioning",),
        cause="ZeRO stage 2 and 3 reduce gradients in each backward pass, and the script accumulates gradients under no_sync. "
        "DeepSpeed 0.16 refuses that; accelerate and transformers called it",
        probe="pip list | grep -iE 'deepspeed|accelerate|transformers'",
        fix="pip install -U accelerate transformers, or deepspeed==0.15.4. Otherwise use gradient_accumulation_steps=1 in "
        "the script, or ZeRO stage 1",
        link="https://github.com/deepspeedai/DeepSpeed/issues/6793",
    ),
    Entry(
        id="zero-reduced-twice",
        title="The parameter 447 has already been reduced. Gradient computed twice for this partition",
        patterns=(r"The parameter (?P<name>\S+) has already been reduced",),
        cause="ZeRO got two gradients for parameter {name} in one step. Common reasons are activation checkpointing with "
        "use_reentrant=True, a layer that is used twice, and two calls of backward",
        probe="grep -rnE 'gradient_checkpointing|backward' of the script",
        fix="gradient_checkpointing_kwargs={'use_reentrant': False}, or no checkpointing. Call backward once, on the sum of the "
        "losses. Otherwise ZeRO stage 1 with reduce_scatter false, or stage 0",
        link="https://github.com/deepspeedai/DeepSpeed/issues/988",
    ),
    Entry(
        id="zero3-order",
        title="tracing error at step; expected the next parameters in the parameter fetch queue to be; still have inflight params",
        patterns=(
            r"RuntimeError: tracing error at step \d+",
            r"parameters in the parameter fetch queue to be",
            r"RuntimeError: still have inflight params",
            r"'ds_numel': .*\} already in registry",
            r"disagreement between rank\d+ and rank\d+: rank0",
            r"AssertionError: \{'id': .*'status': 'INFLIGHT'",
            r"(?:param )?\{'id': .*'status': .*\} (?:still in flight|Cannot partition a param in flight)",
            r"expect(?:ed)? param.* \{'id': .*'status': .*\} to (?:not )?be available",
            r"attempted to add non-inflight parameter to registry",
            r"expect param\.ds_status == ZeroParamStatus\.NOT_AVAILABLE",
            r"Detected a disagreement on list contents between rank\d+ and rank\d+",
        ),
        cause="ZeRO-3 fetches parameters in the order of the first step, and this step used other ones or another order. Usual: "
        "batches with and without images, experts, layers that are skipped, or code that calls a part of the model",
        probe="the module in the traceback: which batches skip it",
        fix="run each part for every batch (a dummy image, multiplied by 0), and declare experts with "
        "deepspeed.utils.set_z3_leaf_modules. To test: stage3_prefetch_bucket_size 0, ZeRO stage 2, or a newer DeepSpeed",
        link="https://github.com/deepspeedai/DeepSpeed/issues/3599",
    ),
    Entry(
        id="zero3-generate",
        title="IndexError: pop from an empty deque, in partitioned_param_coordinator.py",
        patterns=(r"IndexError: pop from an empty deque",),
        needs=r"partitioned_param_coordinator\.py",
        cause="ZeRO-3 lost count of the modules of a step. Usual: the model generates text between training steps, or its hooks "
        "were removed for that",
        probe="pip list | grep -iE 'deepspeed|trl|transformers|accelerate'",
        fix="pip install -U deepspeed trl accelerate. In TRL: ds3_gather_for_generation=False, or generation by vLLM (use_vllm). "
        "Otherwise ZeRO stage 2",
        link="https://github.com/huggingface/trl/issues/2304",
    ),
    Entry(
        id="zero3-low-memory-load",
        title="DeepSpeed Zero-3 is not compatible with `low_cpu_mem_usage=True` or with passing a `device_map`",
        patterns=(r"DeepSpeed Zero-3 is not compatible with `?(?:low_cpu_mem_usage|passing)",),
        cause="ZeRO-3 divides the weights over the ranks while they are loaded. device_map, low_cpu_mem_usage and a quantisation "
        "place them in another way",
        probe="grep -rnE 'device_map|low_cpu_mem_usage|load_in_[48]bit|BitsAndBytesConfig' of the script",
        fix="remove device_map and low_cpu_mem_usage. For a quantised model (QLoRA): ZeRO stage 2, or zero3_init_flag: false",
        link="https://github.com/huggingface/transformers/issues/24445",
    ),
    Entry(
        id="zero3-mixed-dtypes",
        title="expected there to be only one unique element in <generator object Init._convert_to_deepspeed_param",
        patterns=(
            r"expected there to be only one unique element in <generator object",
            r"output tensor must have the same type as input tensor",
        ),
        cause="ZeRO-3 or FSDP gathers the parameters of a module together, and they have different types. Usual: a quantised model "
        "(QLoRA) or fp32 adapters in a bf16 model",
        probe="print({p.dtype for p in model.parameters()})",
        fix="load the whole model in one dtype. For a quantised model: ZeRO stage 2, FSDP with bnb_4bit_quant_storage, or "
        "unquantised LoRA",
        link="https://github.com/axolotl-ai-cloud/axolotl/issues/207",
    ),
    Entry(
        id="zero-optimizer",
        title="You are using ZeRO-Offload with a client provided optimizer; You are using an untested ZeRO Optimizer",
        patterns=(
            r"using ZeRO-Offload with a client provided optimizer \(<class '(?P<name>[^']+)'",
            r"You are using an untested ZeRO Optimizer",
            r"CPUAdam param is on \S+ and must be 'cpu'",
        ),
        cause="DeepSpeed does not accept this optimizer[ ({name})] with ZeRO: optimizer states on the CPU need its own CPU Adam, "
        "and others must be permitted",
        probe="grep -nE 'optimizer|offload|zero_' of the DeepSpeed configuration",
        fix='with offload_optimizer: use deepspeed.ops.adam.DeepSpeedCPUAdam, or "optimizer" in the configuration, or '
        '"zero_force_ds_cpu_optimizer": false. Without offload, for another optimizer: "zero_allow_untested_optimizer": true',
        link="https://www.deepspeed.ai/docs/config-json/#optimizer-parameters",
    ),
    Entry(
        id="zero-backward-bypassed",
        title="'DeepSpeedZeroOptimizer' object has no attribute 'ipg_index'",
        patterns=(r"'DeepSpeedZero\w*' object has no attribute '(?P<name>ipg_\w+|averaged_gradients)'",),
        cause="the script calls loss.backward() on a model of DeepSpeed's ZeRO, whose hooks need the engine's own backward",
        probe="grep -nE '\\.backward\\(|\\.step\\(' of the script",
        fix="engine.backward(loss) and engine.step() in place of loss.backward() and optimizer.step(), where engine is what "
        "deepspeed.initialize returned. With accelerate: accelerator.backward(loss)",
        link="https://github.com/deepspeedai/DeepSpeed/issues/6995",
    ),
    Entry(
        id="zero-no-optimizer",
        title="'DeepSpeedZeRoOffload' object has no attribute 'backward'; largest_numel = max(): max() arg is an empty sequence",
        patterns=(
            r"'DeepSpeedZeRoOffload' object has no attribute '(?:backward|step|\w*grad\w*)'",
            r"max\(\) arg is an empty sequence",
            r"zero stage \d requires an optimizer",
            r"must provide optimizer during init in order to use",
        ),
        needs=r"DeepSpeedZeRoOffload|fp16_partitioned_groups|requires an optimizer|optimizer during init",
        cause="ZeRO has nothing to train: it got no optimizer, or none of the parameters requires a gradient. A frozen model (a "
        "reference or reward model) was prepared as a model to train",
        probe="print(sum(p.requires_grad for p in model.parameters())); grep -n optimizer of the configuration",
        fix="pass an optimizer, or set one in the configuration. Unfreeze parameters or add an adapter. Prepare a frozen model "
        "with a configuration of its own, and call it only under no_grad",
        instead=(Instead(of=("deepspeed-not-active",), near=r"/deepspeed/runtime/\w+\.py"),),
        link="https://github.com/hiyouga/LLaMA-Factory/issues/2546",
    ),
    Entry(
        id="nvme-offload",
        title="buffer nbytes != file bytes; Assertion `n_completes >= min_completes' failed; More elements than buffer size",
        patterns=(
            r"(?P<path>\S*\.tensor\.swp): buffer nbytes != file bytes (?P<wanted>\d+) != (?P<used>\d+)",
            r"Assertion `static_cast<long long int>\(buffer\.nbytes\(\)\) == num_file_bytes' failed",
            r"Assertion `n_completes >= min_completes' failed",
            r"deepspeed_aio: +(?P<call>open|fstat)\b.* failed on (?P<path>\S+) error = (?P<code>\d+)",
        ),
        explains=("aborted", "terminated"),
        cause="a swap file of ZeRO's offload to NVMe could not be written or read[: {path} has {used} bytes in place of "
        "{wanted}][: {call} of {path}, errno {code}]. The disk is full or slow, the path is no local file system, or sizes are not aligned",
        probe="df -h and mount of nvme_path; cat /proc/sys/fs/aio-max-nr /proc/sys/fs/aio-nr",
        fix="set nvme_path to an empty directory on a local disk with room for parameters and optimizer states. Delete old "
        "files zero_stage_3 there. Raise fs.aio-max-nr, and use a newer DeepSpeed",
        link="https://github.com/deepspeedai/DeepSpeed/issues/2006",
    ),
    Entry(
        id="nvme-offload-buffer",
        title="More elements 524709888 than buffer size 100,000,000",
        patterns=(r"More elements (?P<wanted>\d+) than buffer size (?P<used>[\d,]+)",),
        cause="a parameter with {wanted} elements does not fit into a buffer of ZeRO's NVMe offload ({used})",
        probe="grep -n buffer_size of the DeepSpeed configuration",
        fix="set offload_param.buffer_size to at least {wanted}, with a buffer_count of 5 or more",
        link="https://github.com/deepspeedai/DeepSpeed/issues/3506",
    ),
    Entry(
        id="nvme-offload-not-set-up",
        title="'NoneType' object has no attribute 'available_swap_in_buffers'",
        patterns=(
            r"type object 'Init' has no attribute '(?:quantizer_module|quantized_\w+)'",
            r"'NoneType' object has no attribute '(?:available_swap_in_buffers|reserve_partitioned_swap_space|swap_\w+|remove_partition\w*)'",
        ),
        cause="the model was built without a setting of ZeRO-3 (offload to NVMe, quantised weights): zero.Init did not get the "
        "DeepSpeed configuration",
        probe="grep -rn 'zero.Init' of the script; grep -n offload_param -A6 of the configuration",
        fix="build the model under deepspeed.zero.Init(config_dict_or_path=CONFIG), with the file that deepspeed.initialize "
        "gets. Or offload parameters to the CPU",
        link="https://github.com/deepspeedai/DeepSpeed/issues/1035",
    ),
    Entry(
        id="deepspeed-set-twice",
        title="You cannot specify an optimizer in the config file and in the code at the same time",
        patterns=(
            r"cannot specify an? (?P<name>optimizer|scheduler) in the config file and in the code at the same time",
            r"cannot create a `(?P<name>Dummy\w+)` without specifying",
            r"Do not set `(?P<name>\w+)` in the DeepSpeed config",
            r"When using `deepspeed_config_file`, the following accelerate config variables will be ignored: (?P<name>.*)",
            r"AssertionError: (?P<name>(?:bf16|bfloat16) and fp16|fp16 and (?:bf16|bfloat16)) modes cannot be simultaneously enabled",
            r"given (?P<name>deepspeed configs) in the deepspeed arguments and deepspeed\.initialize",
        ),
        cause="the same thing is set in two places, in the DeepSpeed configuration and in the code or the launcher's "
        "configuration: {name}",
        probe="grep -nE 'optimizer|scheduler|fp16|bf16|gradient_accumulation' of the DeepSpeed configuration; accelerate env",
        fix="set it in one place: remove it from the DeepSpeed file, or from the code. With accelerate, an optimizer in the file "
        "needs accelerate.utils.DummyOptim (and DummyScheduler) in the code. In deepspeed.initialize: config=, or args with deepspeed_config, not both",
        link="https://huggingface.co/docs/accelerate/usage_guides/deepspeed",
    ),
    Entry(
        id="deepspeed-config-missing",
        title="Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided; Please specify the ZeRO optimization config",
        patterns=(
            r"Either (?P<name>train_batch_size or train_micro_batch_size_per_gpu) needs to be provided",
            r"requires you to pass at least one of training or evaluation dataloaders .*`(?P<name>train_micro_batch_size_per_gpu)`",
            r"Please specify the (?P<name>ZeRO optimization config) in the DeepSpeed config",
            r"Expected a string path to an existing deepspeed config.* Received: (?P<name>\S+)",
            r"or a base64 encoded string\. Received: (?P<name>\S+)",
            r"DeepSpeed requires (?P<name>--deepspeed_config) to specify",
            r"Found `optimizer` configured in the DeepSpeed config, but no `(?P<name>scheduler)`",
            r"dataloaders passed to `accelerate\.prepare\(\)` has `None` as batch size.*`(?P<name>train_micro_batch_size_per_gpu)` in",
        ),
        cause="DeepSpeed's configuration, or a part of it, is missing: {name}. A file with a relative path is searched in the "
        "working directory of each rank",
        probe="on each node: ls -l and cat of the DeepSpeed configuration, started the same way; pwd",
        fix='pass a full path, and add the missing key: "train_micro_batch_size_per_gpu", "zero_optimization" with a stage, or '
        '"scheduler" beside "optimizer". '
        "Values of `auto` are filled in by transformers or accelerate only",
        link="https://www.deepspeed.ai/docs/config-json/",
    ),
    Entry(
        id="deepspeed-two-models",
        title="You can't use same `Accelerator()` instance with multiple models when using DeepSpeed",
        patterns=(r"can't use same `Accelerator\(\)` instance with multiple models when using DeepSpeed",),
        cause="accelerate prepares one model for each DeepSpeed engine, and one Accelerator got several. Usual: a teacher, a reward "
        "model, an EMA copy",
        probe="grep -n 'accelerator.prepare' of the script",
        fix="prepare only the model to train. For others: one Accelerator and one DeepSpeedPlugin each (accelerate 1.0 or newer), "
        "or model.to(accelerator.device) without prepare for a frozen one",
        link="https://huggingface.co/docs/accelerate/usage_guides/deepspeed_multiple_model",
    ),
    Entry(
        id="resume-file-latest-missing",
        title="Unable to find latest file at .../latest",
        kind="hint",
        patterns=(r"Unable to find latest file at (?P<path>\S+?),? if trying to load latest checkpoint",),
        explains=("resume-checkpoint-missing",),
        cause="DeepSpeed found no file {path}, which names the newest checkpoint. So it loads nothing",
        probe="ls -d on that host: the directory with global_step*",
        fix="pass the directory that holds `latest`, or the tag of a checkpoint: load_checkpoint(DIRECTORY, tag='global_step100'). "
        "A run that is to begin anew needs nothing",
        link="https://github.com/tdrussell/diffusion-pipe/issues/73",
    ),
    Entry(
        id="zero-shard-missing",
        title="No such file or directory: '.../global_step100/zero_pp_rank_4_mp_rank_00_optim_states.pt'",
        patterns=(r"No such file or directory: '?(?P<path>\S*?zero_pp_rank_(?P<name>\d+)_mp_rank_\d+\w*\.pt)",),
        explains=("file-missing",),
        cause="the checkpoint has no file of optimizer states for rank {name} here ({path}). It was saved by fewer ranks, with "
        "another ZeRO stage, or on the local disks of other nodes. Or it holds converted weights only",
        probe="on each node: ls {path|CHECKPOINT}, and its directory; echo $WORLD_SIZE",
        fix="start as many ranks, with the ZeRO stage of that run. Save to a shared file system. For the weights alone: "
        "load_checkpoint(..., load_optimizer_states=False, load_module_only=True)",
        link="https://github.com/HuangLK/transpeeder/issues/28",
    ),
    Entry(
        id="sglang-load-unfinished",
        kind="generic",
        title="TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading",
        patterns=(
            r"rank (?P<rank>\d+) could finish the model loading, but there are other ranks that didn't finish loading",
        ),
        explains=("aborted", "terminated", "own-exception"),
        cause="SGLang's rank {rank} has loaded its part of the model and waited for the others. One of them failed, or reads the files "
        "more slowly than this one",
        probe="grep -n 'Scheduler hit an exception\\|OutOfMemory\\|Killed' in the logs of all nodes; iostat -x 5 while it loads",
        fix="read the first failure of the ranks without this message. Without such a failure, the disk is slow: copy the model to "
        "a local disk or /dev/shm of each node",
        link="https://github.com/sgl-project/sglang/issues/5457",
    ),
    Entry(
        id="converted-model-elsewhere",
        title="Pretrained run config not found at .../iter_0000000/run_config.yaml on rank=8",
        patterns=(r"Pretrained run config not found at (?P<path>\S+) on rank=(?P<rank>\d+)",),
        cause="rank 0 of NeMo RL converts the model for Megatron once, and rank {rank} does not see the result ({path}). The directory is "
        "on a disk of rank 0's node, or in its container",
        probe="on each node: ls {path}; echo $NRL_MEGATRON_CHECKPOINT_DIR $HF_HOME",
        fix="export NRL_MEGATRON_CHECKPOINT_DIR (or HF_HOME) with a directory on a shared file system, in the containers of all nodes, "
        "before Ray starts",
        link="https://github.com/NVIDIA-NeMo/RL/issues/1770",
    ),
    Entry(
        id="model-offloaded",
        title="Some modules are dispatched on the CPU or the disk; You can't move a model that has some modules offloaded to cpu or disk",
        patterns=(
            r"modules are dispatched on the CPU or the disk",
            r"can't move a model that has some modules offloaded to cpu or disk",
            r"loaded in \S+(?: or \S+)? precision with CPU or disk offload",
            r"`device_map` had weights offloaded to the disk",
        ),
        cause="device_map='auto' found too little free GPU memory for the model. It placed a part of it on the CPU or the disk",
        probe="nvidia-smi: the free memory of the GPUs that the rank sees; print(model.hf_device_map)",
        fix="free the GPUs, or use more or larger ones. In distributed training: device_map={'': LOCAL_RANK} for a model "
        "that fits one GPU, otherwise FSDP or ZeRO-3 without device_map",
        link="https://huggingface.co/docs/accelerate/usage_guides/big_modeling",
    ),
    Entry(
        id="quantised-model-moved",
        title="`.to` is not supported for `4-bit` or `8-bit` bitsandbytes models",
        patterns=(r"`\.to` is not supported for `[48]-bit`(?: or `[48]-bit`)?",),
        cause="a quantised model is moved or converted (.to, .cuda, .half), which bitsandbytes refuses: by the script, or by an "
        "older accelerate, or DeepSpeed",
        probe="the traceback shows the caller; pip list | grep -iE 'bitsandbytes|accelerate|transformers'",
        fix="remove the call, and load with device_map={'': LOCAL_RANK}. If a library calls it: pip install -U accelerate "
        "transformers bitsandbytes",
        link="https://github.com/huggingface/transformers/issues/24540",
    ),
    Entry(
        id="accelerator-state",
        title="AcceleratorState has already been initialized and cannot be changed; 'AcceleratorState' object has no attribute 'distributed_type'",
        patterns=(
            r"AcceleratorState has already been initialized and cannot be changed",
            r"['`](?:Accelerator|Partial)State['`] object has no attribute ['`](?P<name>\w+)",
        ),
        cause="the process creates two Accelerators with different settings, or one before TrainingArguments or the launcher's "
        "settings were read",
        probe="grep -rnE 'Accelerator\\(|PartialState\\(|TrainingArguments\\(' of the script",
        fix="create one Accelerator with all settings (mixed_precision, cpu, plugins), and TrainingArguments before any other use "
        "of accelerate. In a notebook, restart the kernel. Otherwise: pip install -U accelerate transformers",
        link="https://github.com/huggingface/accelerate/issues/1730",
    ),
    Entry(
        id="fsdp-state",
        title="expected to be in states [<TrainingState.FORWARD_BACKWARD: 2>] but current state is TrainingState.IDLE",
        patterns=(
            r"[Ee]xpected to be in states? .*but (?:current state is|got) (?P<name>\S*State\.\w+)",
            r"Expects \S+(?: or \S+)? (?:to be in )?\S* ?state but got (?P<name>\S*State\.\w+)",
            r"Invalid: ``_post_backward_hook_state``",
            r"The `grad_fn` is needed to access the `AccumulateGrad`",
            r"Expects the handle training to be IDLE but got (?P<name>\S*State\.\w+)",
            r"FSDP does not support changing the parameters between forward and backward",
            r"Entering the ``_unshard_fsdp_state_params`` context but",
        ),
        cause="FSDP met a part of the model at a time when it did not expect it. Usual: a wrapped part is called directly, used "
        "twice in a step, got no gradient, or ran first under inference_mode; or activation checkpointing is reentrant",
        probe="the traceback shows the module",
        fix="call the outermost FSDP module only, once for each backward. Use use_reentrant=False for checkpointing, and torch.no_grad() in place of inference_mode. Do not wrap "
        "embeddings or heads on their own; or use FSDP2 (fully_shard)",
        link="https://github.com/pytorch/pytorch/issues/148756",
    ),
    Entry(
        id="cuda-device-expected",
        title="ValueError: Expected a cuda device, but got: cpu",
        patterns=(r"Expected a cuda device, but got: cpu",),
        cause="a function of CUDA got the CPU as its device: a part of the model is there. Usual: a quantised model (QLoRA) with "
        "CPU offload or with loading on rank 0 only",
        probe="print({p.device for p in model.parameters()}); grep -rnE 'offload|cpu_ram_efficient' of the configuration",
        fix="without offload for a quantised model: device_map={'': LOCAL_RANK}, and pip install -U bitsandbytes peft accelerate. "
        "Otherwise correct the device that the call in the traceback gets",
        link="https://github.com/huggingface/peft/issues/1674",
    ),
    Entry(
        id="dataset-smaller-than-ranks",
        title="AssertionError: assert len(indices) == self.total_size, in DistributedSampler",
        patterns=(
            r"assert len\(indices\) == self\.(?:total_size|num_samples)",
            r"AssertionError: (?:Train|Validation) dataloader is empty",
        ),
        cause="the data set has fewer samples than the job has ranks, or than one batch takes, or it was changed after the sampler "
        "was made",
        probe="print(len(dataset)); echo $WORLD_SIZE",
        fix="more data, a smaller batch or fewer ranks. For a validation set of a few samples: no DistributedSampler, on rank 0 only. A newer "
        "torch repeats samples",
        link="https://github.com/pytorch/pytorch/issues/45324",
    ),
    Entry(
        id="dispatched-batches-differ",
        title="accelerate: Sizes of tensors must match except in dimension 0, in _fetch_batches",
        patterns=(
            r"Sizes of tensors must match except in dimension",
            r"can't use batches of different size with `dispatch_batches=True`",
        ),
        needs=r"accelerate/data_loader\.py.*_fetch_batches|with `dispatch_batches=True`",
        explains=("shapes-differ",),
        cause="rank 0 reads the data for all ranks (dispatch_batches, the default of an IterableDataset), and joins batches of "
        "different lengths",
        probe="grep -rn 'dispatch_batches' of the script",
        fix="dispatch_batches=False: in TrainingArguments, accelerator_config={'dispatch_batches': False}. Or pad all samples to "
        "one length",
        link="https://github.com/huggingface/transformers/issues/26548",
    ),
    Entry(
        id="lightning-notebook",
        title="`Trainer(strategy='ddp')` is not compatible with an interactive environment",
        patterns=(r"is not compatible with an interactive environment",),
        cause="Lightning starts the other ranks by running the script again, which a notebook is not",
        probe="python -c 'import __main__; print(hasattr(__main__, \"__file__\"))'",
        fix="run the code as a script, or strategy='ddp_notebook'",
        link="https://lightning.ai/docs/pytorch/stable/accelerators/gpu_intermediate.html",
    ),
    Entry(
        id="lightning-two-packages",
        title="`model` must be a `LightningModule` or `torch._dynamo.OptimizedModule`, got",
        patterns=(
            r"`model` must be a `LightningModule`.*, got `(?P<name>\w+)`",
            r"must be either None or (?:pytorch_lightning|lightning\.pytorch)\.Trainer\. But got <class '(?P<name>[^']+)'",
            r"invalid strategy name: `strategy=<(?P<name>(?:pytorch_)?lightning\.[\w.]+)\b.* instance of `(?:pytorch_)?lightning\.",
        ),
        cause="{name} is not of the package that is expected here. `lightning` and `pytorch_lightning` are two packages, and the "
        "script or its libraries mix them",
        probe="grep -rnE 'import (pytorch_lightning|lightning)|from (pytorch_lightning|lightning)' of the script",
        fix="import all from one of them: `import lightning.pytorch as pl`, or `import pytorch_lightning as pl`",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/17266",
    ),
    Entry(
        id="val-check-interval",
        title="`val_check_interval` (2000) must be less than or equal to the number of the training batches (500)",
        patterns=(
            r"`val_check_interval` \((?P<wanted>\d+)\) must be less than or equal to the number of the training batches \((?P<used>\d+)\)",
        ),
        cause="Lightning is to validate each {wanted} batches, and a rank has {used} in an epoch: more ranks have fewer each",
        probe="grep -rn val_check_interval of the script and its configuration",
        fix="a smaller val_check_interval, a fraction (0.25), or check_val_every_n_epoch=None to count over epochs",
        link="https://lightning.ai/docs/pytorch/stable/common/trainer.html",
    ),
    Entry(
        id="cuda-max-connections",
        title="Using sequence parallelism requires setting the environment variable CUDA_DEVICE_MAX_CONNECTIONS to 1",
        patterns=(r"(?:requires|require) setting the environment variable CUDA_DEVICE_MAX_CONNECTIONS",),
        cause="Megatron's tensor and sequence parallelism needs CUDA_DEVICE_MAX_CONNECTIONS=1, and this process does not have it",
        probe="echo $CUDA_DEVICE_MAX_CONNECTIONS in the ranks",
        fix="export CUDA_DEVICE_MAX_CONNECTIONS=1 on all nodes before the start (mpirun: -x; docker: -e). With Megatron's FSDP: "
        "leave it unset",
        link="https://github.com/NVIDIA/Megatron-LM",
    ),
    Entry(
        id="megatron-groups-missing",
        title="pipeline_model parallel group is not initialized",
        patterns=(
            r"(?<![\w -])[ -]*(?P<name>\w[\w -]*) parallel group is not initialized",
            r"cuda rng state (?P<name>\S+) is not added",
        ),
        cause="Megatron's parallel groups ({name}) were not made in this process. initialize_model_parallel was not called, or "
        "in another copy of Megatron that is on the path as well",
        probe="python -c 'import megatron; print(megatron.__path__)'; grep -rn initialize_model_parallel of the script",
        fix="call initialize_megatron or parallel_state.initialize_model_parallel first, after init_process_group. Import all "
        "from one copy: megatron.core.parallel_state, not a module mpu beside it",
        link="https://github.com/zai-org/CodeGeeX/issues/271",
    ),
    Entry(
        id="deepspeed-no-address",
        title="Using IP address of  for node HOST",
        patterns=(r"Using IP address of {2}for node (?P<node>\S+)",),
        cause="DeepSpeed found no address of its first node {node}, as `hostname -I` prints nothing there. So --master_addr is "
        "empty, and the ranks do not find each other",
        probe="ssh {node} hostname -I",
        fix="deepspeed --master_addr ADDRESS ..., with the address or the name of that node, which the others can resolve",
        link="https://github.com/deepspeedai/DeepSpeed/issues/2612",
    ),
    Entry(
        id="deepspeed-hostname",
        title="hostname: invalid option -- 'I'; Command '['hostname -I']' returned non-zero exit status",
        patterns=(
            r"hostname: (?:invalid|illegal|unrecognized) option -- '?I",
            r"Command '\[(?:'hostname', '-I'|'hostname -I')\]' (?:returned non-zero|died with)",
        ),
        explains=("own-exception", "segfault"),
        cause="no launcher set RANK and MASTER_ADDR, so DeepSpeed asked MPI, and then ran `hostname -I` for this host's address. This "
        "`hostname` has no -I (inetutils, macOS), or failed",
        probe="hostname -I; env | grep -E '^(RANK|WORLD_SIZE|MASTER_)'",
        fix="start the script with torchrun, deepspeed or ddpkit launch, also with one GPU. Or update DeepSpeed, or export "
        "MASTER_ADDR, MASTER_PORT, RANK, LOCAL_RANK and WORLD_SIZE",
        link="https://github.com/deepspeedai/DeepSpeed/issues/826",
    ),
    Entry(
        id="launcher-needed",
        title="Please use `FORCE_TORCHRUN=1` to launch DeepSpeed training; should be run via a distributed launcher",
        patterns=(
            r"use `FORCE_TORCHRUN=1` to launch DeepSpeed",
            r"should be run via a distributed launcher",
            r"DeepSpeed is not compatible with MP\. n_gpu: \d+, local_world_size: 1",
            r"Please launch distributed training with `llamafactory-cli` or `torchrun`",
            r"DeepSpeed requires the LOCAL_RANK environment variable",
            r"Using fsdp only works in distributed training",
        ),
        cause="the program was started as one process without a launcher, and needs one: it found no RANK and WORLD_SIZE",
        probe="env | grep -E '^(RANK|WORLD_SIZE|LOCAL_RANK)='",
        fix="FORCE_TORCHRUN=1 llamafactory-cli train FILE; NPROC_PER_NODE=N swift sft ...; tune run --nproc_per_node N RECIPE. For "
        "others: torchrun --nproc-per-node N SCRIPT",
        link="https://github.com/hiyouga/LLaMA-Factory",
    ),
    Entry(
        id="config-value-invalid",
        title="pydantic: 1 validation error for DeepSpeedZeroConfig",
        patterns=(
            r"\b\d+ validation errors? for (?P<name>[A-Za-z][\w.\[\]]*)$",
            r"ValueError: '(?P<name>\w+)' is not supported as an optimizer parameter",
        ),
        context=r"(?:^|\s)(?P<reason>(?:Input|Value|Field|Extra|Unable|Assertion|value|field|extra|none|str|ensure)\b.*[\[(]type=.*[\])])$",
        cause="a value of the configuration {name} is not accepted[: {reason}]",
        probe="the lines below it: the key, the reason, and the value that was given",
        fix="correct that key in the configuration file. In DeepSpeed's, sizes are integers, and `auto` is understood by "
        "transformers and accelerate only. A key that is not known: update the package",
        link="https://docs.pydantic.dev/latest/errors/validation_errors/",
    ),
    Entry(
        id="settings-refused",
        title="Can not use sequence parallelism without tensor parallelism; an exception in __post_init__, validate_args",
        patterns=(
            r"ValueError: (?P<reason>Can ?not use sequence parallelism without tensor parallelism)",
            r"ValueError: (?P<reason>When using pipeline parallelism, pipeline_dtype must be specified)",
            r"ValueError: (?P<reason>num_moe_experts must be .*[^.\s])",
            r"AssertionError: (?P<reason>When using MoE and tensor parallelism, sequence parallelism must be used)",
            r"RuntimeError: (?P<reason>pipeline-model-parallel size should be .*[^.\s])",
        ),
        cause="settings of this run do not fit each other, or one has a value that the program does not accept[: {reason}]. Usually all "
        "ranks fail alike",
        probe="print the settings as the program has them: Hydra: --cfg job; Megatron prints its arguments at the start",
        fix="change or remove the setting that the message names, in the command or the configuration. Check that a variable of the shell "
        "is not empty there. If it worked before, compare the program's version",
        instead=(
            Instead(
                of=("own-exception",),
                text=r"""^(?:(?:AssertionError|ValueError|RuntimeError|NotImplementedError)|(?:[\w.]*\.)?MisconfigurationException): (?P<reason>.+)""",
                near=r"""File "(?!.*/torch/)[^"]+", line \d+, in (?:__(?:attrs_)?post_init__|get_(?:train|infer|eval)_args|_{0,2}(?:do_)?(?:validate|verify|check|sanity_check)_(?:\w+_)?(?:args|arguments|cfg|config|configs|configuration|settings|options|hparams)(?:_\w+)?|_(?:do_)?(?:\w+_)?(?:error|sanity)_check|_verify_\w+)$""",
            ),
            Instead(of=("own-exception",), text=r"^(?:[\w.]*\.)?MisconfigurationException: (?P<reason>.+)"),
        ),
        link="https://github.com/ROCm/Megatron-LM/pull/85",
    ),
    Entry(
        id="map-worker-died",
        title="One of the subprocesses has abruptly died during map operation",
        kind="generic",
        patterns=(r"One of the subprocesses has abruptly died during map operation",),
        cause="a process of datasets.map was killed, mostly because the host's memory was full: each rank starts num_proc "
        "processes",
        probe="on that host: dmesg -T | grep -i 'killed process'; free -g",
        fix="a smaller num_proc and writer_batch_size. Prepare the data on one rank before the others "
        "(training_args.main_process_first), or before the run",
        link="https://huggingface.co/docs/datasets/process",
    ),
    Entry(
        id="dataset-generation-failed",
        title="DatasetGenerationError: An error occurred while generating the dataset",
        kind="generic",
        patterns=(r"An error occurred while generating the dataset",),
        cause="datasets could not read its source files. The exception above it shows why: a column or a format that differs "
        "between files, a file that is cut off, or a full disk",
        probe="the exception above it; df -h ~/.cache/huggingface",
        fix="correct the file that the exception above it shows. After an interrupted download: download_mode='force_redownload'",
        link="https://huggingface.co/docs/datasets/loading",
    ),
    Entry(
        id="output-not-empty",
        title="Output directory already exists and is not empty. Use --overwrite_output_dir to overcome",
        patterns=(
            r"Output directory \(?(?P<path>[^\s)]+)\)? already exists and is not empty",
            r"Output directory already exists and is not empty",
            r"Checkpoint directory (?P<path>\S+) \(\d+\) already exists\. Please manually override",
        ),
        cause="{path|the output directory} holds files of an earlier run, and the script does not write over them",
        probe="ls {path|OUTPUT_DIR}",
        fix="another --output_dir, --overwrite_output_dir true, or --resume_from_checkpoint to continue the earlier run",
        link="https://huggingface.co/docs/transformers/main_classes/trainer",
    ),
    Entry(
        id="deepspeed-auto",
        title="could not convert string to float: 'auto'; '>' not supported between instances of 'str' and 'int', in deepspeed",
        patterns=(
            r"could not convert string to float: 'auto'",
            r"invalid literal for int\(\) with base 10: 'auto'",
            r"TypeError: '[<>*/]=?' not supported between instances of '(?:str|int|float)' and '(?:str|int|float)'",
        ),
        needs=r"(?i)\bdeepspeed/(?:runtime|comm|__init__)|deepspeed_?config|DeepSpeedConfig|ds_config",
        explains=("own-exception",),
        cause="DeepSpeed got a word where it needs a number: usually an `auto` of its configuration. transformers' Trainer and accelerate "
        "replace that, and only the keys that they know",
        probe="grep -n auto of the JSON file of DeepSpeed",
        fix="write numbers in place of auto, for example warmup_num_steps, total_num_steps, train_micro_batch_size_per_gpu and "
        "reduce_bucket_size. With the Trainer, pass the file by TrainingArguments(deepspeed=FILE), before the model is loaded",
        link="https://huggingface.co/docs/transformers/deepspeed",
    ),
    Entry(
        id="vllm-memory-changed",
        title="vLLM: Error in memory profiling. Initial free memory, current free memory",
        patterns=(r"Error in memory profiling\. Initial free memory",),
        cause="another process freed memory of this GPU while vLLM measured what is free: two engines or a training start on it at "
        "the same time",
        probe="nvidia-smi",
        fix="start one engine after the other on a GPU, or after the training has loaded its model. Then start it again",
        action="retry",
        reason="another process freed GPU memory while vLLM started",
        link="https://docs.vllm.ai/en/latest/usage/troubleshooting.html",
    ),
    Entry(
        id="vllm-server-missing",
        title="The vLLM server can't be reached at http://0.0.0.0:8000 after 240.0 seconds",
        patterns=(
            r"The vLLM server can't be reached at (?P<url>\S+) after",
            r"Servers? not reachable after [\d.]+s?: \[?'?(?P<url>http[^'\],\s]+)",
        ),
        cause="the trainer reaches no vLLM server at {url}: it is not started, still loads its model, or is on another host",
        probe="curl -sS {url}/health",
        fix="start `trl vllm-serve --model NAME` (ms-swift: `swift rollout`) first, on GPUs that the training does not use, and "
        "pass vllm_server_host of that host. Or use vllm_mode='colocate'",
        link="https://huggingface.co/docs/trl/vllm_integration",
    ),
    Entry(
        id="vllm-server-endpoints",
        title='Exception: Request failed: 404, {"detail":"Not Found"}, in trl/extras/vllm_client.py',
        patterns=(
            r"Exception: Request failed: 404, ",
            r"404 Client Error: Not Found for url: \S+/(?P<call>get_world_size|init_communicator|update_named_param|reset_prefix_cache|get_engine_type)\b",
            r"\"(?:GET|POST) /(?P<call>get_world_size|init_communicator|update_named_param|reset_prefix_cache|get_engine_type)/? HTTP/1\.1\" 404",
        ),
        needs=r"vllm|rollout",
        cause="the server that generates for the trainer does not know[ {call},] a call of the trainer. It is a plain vLLM server (`vllm "
        "serve`), or of another version than the trainer",
        probe="the command that started the server; pip show trl vllm on both sides",
        fix="start the trainer's own server: `trl vllm-serve --model NAME` (ms-swift: `swift rollout`), with the same version of TRL on "
        "both sides",
        link="https://github.com/huggingface/trl/issues/3587",
    ),
    Entry(
        id="wandb-run-missing",
        title="AttributeError: 'NoneType' object has no attribute 'id', at wandb.run.id",
        patterns=(r"'NoneType' object has no attribute '(?P<name>\w+)'",),
        needs=r"\bwandb\.run\.(?P=name)\b",
        cause="wandb.run is None on this rank: only rank 0 called wandb.init, and another rank uses wandb.run.{name}",
        probe="grep -rn 'wandb.run' of the script",
        fix="use it on rank 0 only (`if wandb.run is not None`), and send the value to the other ranks with "
        "torch.distributed.broadcast_object_list",
        link="https://docs.wandb.ai/guides/track/log/distributed-training",
    ),
    Entry(
        id="scheduler-optimizer",
        title="TypeError: DeepSpeedZeroOptimizer is not an Optimizer",
        patterns=(r"TypeError: (?P<name>(?:DeepSpeed|FP16_|BF16_|Accelerated|Lightning)\w*) is not an Optimizer",),
        cause="a learning rate scheduler of torch got {name}, a wrapper, and accepts an optimizer of torch only",
        probe="the traceback shows the scheduler",
        fix="make the scheduler of the optimizer before it is wrapped, and pass both: deepspeed.initialize(optimizer=..., "
        "lr_scheduler=...), or accelerator.prepare(optimizer, scheduler). Or take {name}.optimizer",
        link="https://github.com/deepspeedai/DeepSpeed/issues/6992",
    ),
    Entry(
        id="descriptors-passed-twice",
        title="ValueError: bad value(s) in fds_to_keep",
        patterns=(r"bad value\(s\) in fds_to_keep",),
        cause="a spawned process gets the same file descriptor twice: tensors in shared memory (tied weights, a list of them) are "
        "passed to torch.multiprocessing.spawn",
        probe="grep -rnE 'mp\\.spawn|share_memory' of the script",
        fix="torch.multiprocessing.set_sharing_strategy('file_system') at the top of the script, or build the model inside of the "
        "spawned function",
        link="https://github.com/eric-mitchell/direct-preference-optimization/issues/14",
    ),
    Entry(
        id="zero3-parameter-replaced",
        title="'Parameter' object has no attribute 'ds_id', 'ds_numel', 'ds_status'",
        patterns=(r"'(?:Parameter|Tensor|Params4bit|Int8Params)' object has no attribute '(?P<name>ds_\w+)'",),
        cause="ZeRO-3 met a parameter that it has not partitioned: it has no {name}. The code replaced a parameter or added one "
        "after DeepSpeed took the model (an adapter, a resized embedding). Or it loaded a quantised model under ZeRO-3",
        probe="grep -rnE 'nn.Parameter\\(|resize_token_embeddings|get_peft_model|load_in_[48]bit' of the script and the model's code",
        fix="add all modules before deepspeed.initialize or accelerator.prepare, and change values with param.data.copy_() in "
        "place of a new nn.Parameter. For a quantised model: ZeRO stage 2. Otherwise: pip install -U deepspeed peft transformers",
        link="https://github.com/baichuan-inc/Baichuan2/issues/215",
    ),
    Entry(
        id="zero-offload-device",
        title="Expected all tensors to be on the same device, cuda:0 and cpu, in unscale_and_clip_grads of DeepSpeed",
        cause="DeepSpeed itself mixes the CPU and the GPU in a step of ZeRO with offload. Some of its releases do that, for "
        "example 0.14.2; the script is not the reason",
        probe="pip show deepspeed; grep -n offload -A3 of the DeepSpeed configuration",
        fix="pip install -U deepspeed transformers accelerate, or another release of DeepSpeed. To test: no offload_optimizer in the "
        "configuration",
        instead=(Instead(of=("devices-differ",), near=r"/deepspeed/runtime/zero/stage\w*\.py"),),
        link="https://github.com/hiyouga/LLaMA-Factory/issues/3583",
    ),
    Entry(
        id="optimizer-of-other-parameters",
        title="A parameter in the optimizer couldn't be switched to its sharded version; Parameters missing after FSDP2 wrapping",
        patterns=(
            r"parameter in the optimizer couldn't be switched to its sharded version",
            r"Parameters missing after FSDP2 wrapping: (?P<name>.+)",
            r"FSDP2 mapping failed \(missing: (?P<name>.+?)\)\.",
            r"model and (?:an )?optimizer must be passed together to `Accelerator",
            r"model and the optimizer parameters are not on the same device",
            r"optimizer does not seem to reference any FSDP parameters",
        ),
        cause="the optimizer holds parameters that are not those of the wrapped model[: {name}]. It was made from another model "
        "or before a move to the GPU, or two layers share one weight",
        probe="grep -nE 'optim|accelerator.prepare|\\.to\\(' of the script; print(model.config.tie_word_embeddings)",
        fix="make the optimizer from model.parameters() just before, and pass both in one call: model, optimizer = "
        "accelerator.prepare(model, optimizer). For shared weights: pip install -U accelerate, or fsdp_version: 1",
        link="https://github.com/huggingface/accelerate/issues/3821",
    ),
    Entry(
        id="gather-not-a-tensor",
        title="Unsupported types (<class 'NoneType'>) passed to `_gpu_broadcast_one`; Batch does not contain any data (`None`)",
        patterns=(
            r"Unsupported types \((?P<name><class '[^']+'>)\) passed to `",
            r"Batch does not contain any data \(`None`\)",
            r"Can only find the batch size of tensors but got (?P<name><class '[^']+'>)",
        ),
        cause="accelerate is to send a value to other ranks, and it is no tensor[: {name}]. In training, an iterable data set "
        "has ended early or holds text. In an evaluation, the model returns None or an object",
        probe="print({k: type(v) for k, v in batch.items()}); print({k: type(v) for k, v in model(**batch).items()})",
        fix="for an iterable data set: dispatch_batches=False (accelerator_config), and a max_steps that the data allows. In an "
        "evaluation: prediction_loss_only=True, or name the other outputs in ignore_keys",
        link="https://github.com/huggingface/transformers/issues/32090",
    ),
    Entry(
        id="quantised-model-trained",
        title="You cannot perform fine-tuning on purely quantized models. Please attach trainable adapters",
        patterns=(
            r"cannot perform fine-tuning on purely quantized models",
            r"quantized with (?P<name>\S+) but that quantization method do(?:es)? not support training",
            r"Quantization is only compatible with the LoRA\b",
            r"Quantized models? can only be used for the LoRA\b",
        ),
        cause="the weights of the model are quantised[ ({name})], and such weights cannot be trained. The model has no adapter, "
        "or the adapter was merged into it",
        probe="print(model.config.quantization_config, getattr(model, 'peft_config', None))",
        fix="add an adapter: get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(...)), or peft_config=... of "
        "the trainer. Or load the model without load_in_4bit and load_in_8bit",
        link="https://huggingface.co/docs/transformers/peft",
    ),
    Entry(
        id="quantised-weights-lost",
        title="FP4 quantization state not initialized; Blockwise quantization only supports 16/32-bit floats, but got torch.uint8",
        patterns=(
            r"quantization state not initialized",
            r"Blockwise quantization only supports 16/32-bit floats, but got (?P<name>torch\.\w+)",
            r"'(?:Params4bit|Int8Params)' object has no attribute '(?!ds_)\w+'",
            r"'Parameter' object has no attribute '(?:S?CB|quant_state)'",
        ),
        cause="bitsandbytes got weights without their quantisation state, or weights that are quantised already[ ({name})]. FSDP, "
        "ZeRO-3 or a device_map moved or loaded them in another way than bitsandbytes does",
        probe="pip list | grep -iE 'bitsandbytes|accelerate|transformers|peft'; grep -rnE 'offload|cpu_ram_efficient|device_map' of the configuration",
        fix="load the model on the rank's own GPU: device_map={'': LOCAL_RANK}. For FSDP: bnb_4bit_quant_storage=torch.bfloat16 "
        "and the newest bitsandbytes. For DeepSpeed: ZeRO stage 2",
        link="https://huggingface.co/docs/bitsandbytes/main/fsdp_qlora",
    ),
    Entry(
        id="save-eval-steps-differ",
        title="--load_best_model_at_end requires the save and eval strategy to match",
        patterns=(
            r"--load_best_model_at_end requires the saving steps .*but found (?P<used>\d+), which is not .*multiple of (?P<wanted>\d+)",
            r"--load_best_model_at_end requires the (?:save and eval strategy|saving steps)",
        ),
        cause="the Trainer is to keep the best checkpoint, so each checkpoint needs an evaluation. The run saves and evaluates at "
        "different steps[: it saves each {used}, and evaluates each {wanted}]",
        probe="grep -rnE 'load_best_model_at_end|(save|eval|evaluation)_(strategy|steps)' of the script and its configuration",
        fix="set eval_strategy and save_strategy to the same value, and save_steps to a multiple of eval_steps. Or "
        "load_best_model_at_end=False",
        link="https://huggingface.co/docs/transformers/main_classes/trainer",
    ),
    Entry(
        id="dataset-columns",
        title="The model did not return a loss from the inputs; No columns in the dataset match the model's forward method",
        patterns=(
            r"model did not return a loss from the inputs, only the following keys: (?P<name>.+?)\. For",
            r"No columns in the dataset match the model's forward method",
            r"Invalid key: \d+ is out of bounds for size 0",
            r"batch received was empty, your model won't be able to train on it",
            r"KeyError: 'loss'$",
        ),
        needs=r"did not return a loss|No columns in the|is out of bounds for size 0|batch received was empty|in compute_loss\b",
        cause="the columns of the data set are not the arguments of the model's forward. The Trainer removes other columns, so "
        "batches are empty or have no labels",
        probe="print(dataset.column_names); print(inspect.signature(model.forward))",
        fix="tokenize first, so that the columns are input_ids, attention_mask and labels, or add them in a data collator. For a "
        "collator that needs the raw columns: remove_unused_columns=False",
        link="https://huggingface.co/docs/transformers/main_classes/trainer",
    ),
    Entry(
        id="image-tokens-differ",
        title="Image features and image tokens do not match: tokens: 1000, features 1024",
        patterns=(
            r"(?:[Ii]mage|[Vv]ideo|[Aa]udio) features and \w+ tokens do not match[:,] tokens: (?P<used>\d+), features:? (?P<wanted>\d+)",
            r"Mismatch in `\w+` token count between text and `input_ids`",
            r"number of (?:images|videos|audios) does not match the number of <\w+> tokens",
            r"Number of images provided \((?P<wanted>\d+)\) does not match number of image placeholders \((?P<used>\d+)\)",
            r"number of image tokens is (?P<used>\d+) while the number of images? given to the model is (?P<wanted>\d+)",
            r"Attempted to assign .*\b(?P<wanted>\d+) multimodal tokens to (?P<used>\d+) placeholders",
            r"value tensor of shape \[(?P<wanted>\d+), (?P<width>\d{3,})\] cannot be broadcast to indexing result of shape \[(?P<used>\d+), (?P=width)\]",
            r"Assertion `totalElements <= srcSize` failed",
            r"value tensor of shape \[3, (?P<wanted>\d+)\] cannot be broadcast to indexing result of shape \[3, (?P<used>\d+)\]",
            r"is too short and causes image placeholder tokens in `input_ids` to be truncated",
            r"Number of images does not match number of special image tokens in the input text\. Got (?P<used>\d+) image tokens in the text but (?P<wanted>\d+)",
        ),
        explains=("shapes-differ", "device-assert"),
        cause="a sample's text has another number of image places than its images need[: {used}, not {wanted}]. A maximum length "
        "cut the text, a place is missing in it, or preprocessor_config.json is of another version than the model",
        probe="pip show transformers; grep -rnE 'max_length|cutoff_len|max_pixels|truncation' of the script and its configuration",
        fix="raise max_length (cutoff_len), or make images smaller (max_pixels), and leave out samples that are too long. Put one "
        "<image> into the text for each image. Otherwise: pip install -U transformers, and the preprocessor_config.json of this model",
        link="https://github.com/hiyouga/EasyR1",
    ),
    Entry(
        id="prompt-too-long",
        title="Prompt length of 4834 is longer than the maximum model length of 4096; sequence_length=1081 is larger than max_length=1024",
        patterns=(
            r"[Pp]rompt length (?:of )?\(?(?P<wanted>\d+)\)? is longer than (?:the maximum model length of )?(?P<used>\d+)",
            r"[Pp]rompt \(length (?P<wanted>\d+)\) is longer than the maximum model length of (?P<used>\d+)",
            r"Error: .*[Pp]rompt length \((?P<wanted>\d+)\) exceeds \D*(?P<used>\d+)",
            r"[Ss]equence_length=(?P<wanted>\d+) is larger than (?:self\.)?max_length=(?P<used>\d+)",
            r"max_model_len \((?P<wanted>\d+)\) is greater than the derived max_model_len \((?:[\w.]+=)?(?P<used>\d+)",
            r"sentence at index \S+ of size (?P<wanted>\d+) exceeds max_tokens limit of (?P<used>\d+)",
            r"max_token_len must be greater than the sequence length\. Got max_token_len=(?P<used>\d+) and max_seq_len=\D*(?P<wanted>\d+)",
            r"Size of sample #\S+ is invalid \(=\(?(?P<wanted>\d+).* since max_positions=\(?(?P<used>\d+)",
        ),
        cause="a prompt or sample of {wanted} tokens is longer than the limit of {used}. The limit is a setting, or what the model "
        "was made for",
        probe="grep -rnE 'max_(prompt|response|model|seq)?_?len|max_length|max_tokens|truncation|overlong' of the script and its configuration",
        fix="leave out long samples (verl: data.filter_overlong_prompts=True; fairseq: --skip-invalid-size-inputs-valid-test), cut "
        "them, or raise the limit. vLLM's max_model_len must hold the prompt and the response",
        link="https://github.com/verl-project/verl/issues/544",
    ),
    Entry(
        id="fp8-dimensions",
        title="FP8 execution requires 2D input matrices with height divisible by 8 and width divisible by 16",
        patterns=(r"FP8 execution requires", r"Tensor dimensions are not compatible for FP8 execution"),
        cause="a matrix has a size that FP8 on this GPU cannot multiply. Rows must be a multiple of 8, and columns of 16. A batch "
        "with an odd number of tokens, or a small layer, is not",
        probe="the dims in the message: batch * sequence, and the layer's width",
        fix="pad sequences to a multiple of 16 or 32 (pad_to_multiple_of), and drop the last batch. Or leave small layers out of "
        "fp8_autocast",
        link="https://github.com/NVIDIA/TransformerEngine/issues/1422",
    ),
    Entry(
        id="unsloth-one-gpu",
        title="Unsloth currently does not support multi GPU setups",
        patterns=(r"Unsloth currently does not (?:support|work on) multi GPU setups",),
        cause="this version of Unsloth trains on one GPU, and the process sees several",
        probe="pip show unsloth; echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L",
        fix="export CUDA_VISIBLE_DEVICES=0 before Python starts, without torchrun. For several GPUs: pip install -U unsloth "
        "unsloth_zoo, or train without Unsloth (LLaMA-Factory: use_unsloth: false)",
        link="https://github.com/unslothai/unsloth/issues/724",
    ),
    Entry(
        id="vllm-weight-sync",
        title="TCP client failed to connect/validate to host 0.0.0.0:51216",
        patterns=(
            r"TCP client failed to connect/validate to host (?P<host>\S+):51216\b",
            r"client socket has timed out after \w+ while trying to connect to \((?P<host>[^,]+), 51216\)",
        ),
        explains=("master-unreachable", "master-address-bad"),
        cause="a trainer of TRL does not reach port 51216 of {host}, over which it sends the weights to `trl vllm-serve`. The "
        "server is on another host, its workers did not open the port, or both use one GPU",
        probe="on the trainer's host: nc -vz {host} 51216; nvidia-smi: GPUs of the server and of the trainer",
        fix="set vllm_server_host to the name or address of the server's host, also in place of 0.0.0.0, and open port 51216 "
        "there. Give both other GPUs (CUDA_VISIBLE_DEVICES), and use one version of TRL and vLLM. Or vllm_mode='colocate'",
        link="https://github.com/huggingface/trl/issues/4538",
    ),
    Entry(
        id="class-count-differs",
        title="The `num_classes` (80) in Shared2FCBBoxHead does not matches the length of `CLASSES` 20) in CocoDataset",
        patterns=(
            r"`num_classes` \((?P<wanted>\d+)\) in (?P<name>\w+) .*does not matches the length of `CLASSES` \(?(?P<used>\d+)\)",
        ),
        cause="{name} is made for {wanted} classes, and the data set has {used}",
        probe="grep -rnE 'num_classes|classes *=|CLASSES' of the configuration",
        fix="set num_classes of each head to {used}, or classes=(...) of each data set (train, val, test) to the right names. After "
        "a change of CLASSES in the package: pip install -e . again",
        link="https://mmdetection.readthedocs.io/en/latest/advanced_guides/customize_dataset.html",
    ),
    Entry(
        id="chat-template-missing",
        title="Cannot use chat template functions because tokenizer.chat_template is not set",
        patterns=(r"because (?:this processor does not have a chat template|tokenizer\.chat_template is not set)",),
        cause="the data is a conversation, and the tokenizer has no chat template. It is of a base model, or its files are "
        "incomplete",
        probe="python -c 'import transformers,sys; print(transformers.AutoTokenizer.from_pretrained(sys.argv[1]).chat_template)' MODEL",
        fix="use the tokenizer of the chat or instruct model, or set tokenizer.chat_template before the trainer. Copy "
        "chat_template.jinja and tokenizer_config.json with a model",
        link="https://huggingface.co/docs/transformers/chat_templating",
    ),
    Entry(
        id="registered-twice",
        title="KeyError: 'SampleFrames is already registered in pipeline'; 'aimv2' is already used by a Transformers config",
        patterns=(
            r"KeyError: \W(?P<name>\w+) is already registered in ",
            r"object named '(?P<name>\w+)' was already registered in '\w+' registry",
            r"'(?P<name>[\w-]+)' is already used by a Transformers (?:config|model)",
            r"Dataset '(?P<name>[^']+)' is already registered",
            r"in the metadata of '(?P<name>[^']+)' cannot be set to a different value",
        ),
        cause="two modules register {name} under one name. A package is there twice (installed, and as a directory), a class was "
        "copied, or a newer release has that class of its own",
        probe="pip list | grep -iE 'transformers|vllm|sglang|mm|detectron2'; grep -rn {name} of the project",
        fix="for a model of transformers: update the package that registers it (vllm, sglang), or install the older transformers "
        "that it requires. For a class of your own: another name, or register_module(force=True). Remove the second copy. "
        "A data set of detectron2: register it once in a process, or DatasetCatalog.remove and MetadataCatalog.remove before",
        link="https://github.com/MCG-NJU/MGSampler/issues/3",
    ),
    Entry(
        id="vllm-server-lost",
        title="requests.exceptions.ConnectionError: Remote end closed connection without response, in vllm_client.py",
        patterns=(
            r"requests\.exceptions\.(?:ConnectionError|ReadTimeout): (?!.*(?:HTTPSConnectionPool|huggingface))",
            r"RemoteDisconnected\('Remote end closed connection",
            r"HTTPStatusError: Server error '(?P<reason>5\d\d [\w ]+)' for url 'https?://(?P<address>[\w.-]+:\d+)/",
            r"HTTPError: (?P<reason>5\d\d [\w ]+): .* for url: https?://(?P<address>[\w.-]+:\d+)/(?!api/)",
            r"Cannot connect to host (?P<address>[\w.-]+:(?!443\b)\d+) ssl:",
            r"\bServer \d+ failed: (?P<reason>5\d\d[\w, ]*)",
        ),
        needs=r"/vllm_client\.py|\b[Ss][Gg][Ll]ang|\brollout|:\d+/(?:v1/|generate|update_\w*weights?\w*|init_weights_update_group"
        r"|init_communicator|update_named_param|flush_cache|health|release_memory|resume_memory|reset_prefix_cache)",
        explains=("hub-unreachable", "download-unreachable"),
        cause="the server that generates for the trainer (vLLM or SGLang[, at {address}]) closed the connection, did not answer, or "
        "answered with an error[ ({reason})]. Its process failed, hangs or still starts, or its GPU was full",
        probe="the log of that server at that time; curl -sS http://{address|HOST:8000}/health",
        fix="correct what the server's log shows, and start it again before the trainer. GPU memory: a lower "
        "--gpu-memory-utilization, and GPUs of its own. Use one version of TRL (ms-swift) and vLLM on both sides",
        link="https://github.com/huggingface/trl/issues/3622",
    ),
    Entry(
        id="tensorboard-hparams",
        title="ValueError: value should be one of int, float, str, bool, or torch.Tensor",
        patterns=(r"value should be one of int, float, str, bool, or torch\.Tensor",),
        cause="TensorBoard got a hyperparameter that is None, a list or a dict, and add_hparams accepts plain values only",
        probe="grep -rnE 'add_hparams|log_hyperparams' of the code",
        fix="pass str(value) for such values, or log without TensorBoard (EasyR1: trainer.logger)",
        link="https://github.com/hiyouga/EasyR1/issues/315",
    ),
    Entry(
        id="vllm-architecture",
        title="Model architectures ['DeepseekOCRForCausalLM'] are not supported for now",
        patterns=(
            r"Model architectures (?P<name>\[.*?\]) (?:are not supported for now|failed to be inspected)",
            r"(?P<name>\w+) has no (?:vLLM|SGlang|SGLang) implementation and the Transformers implementation is not compatible",
        ),
        explains=("vllm-engine-failed",),
        cause="the installed vLLM or SGLang does not serve models of the architecture {name}: it is older than the model, or could not "
        "import its file",
        probe="pip list | grep -iE 'vllm|transformers'; grep -n architectures of the model's config.json",
        fix="pip install -U vllm (or sglang), with the transformers that it requires, or the other engine. If it failed to be "
        "inspected: correct the exception above that line",
        link="https://docs.vllm.ai/en/latest/models/supported_models.html",
    ),
    Entry(
        id="llamafactory-dataset",
        title="Undefined dataset X in dataset_info.json; Cannot find valid samples, check `data/README.md`",
        patterns=(
            r"Undefined dataset (?P<name>\S+) in dataset_info\.json",
            r"Cannot open (?P<path>\S*dataset_info\.json) due to",
            r"Cannot find valid (?:samples), check `data/README\.md`",
            r"Cannot find (?:sufficient) samples, consider increasing dataset size",
            r"The dataset is not applicable in the current training stage",
        ),
        cause="LLaMA-Factory finds no samples[ of {name}][: it cannot open {path}]. dataset_info.json in dataset_dir does not name "
        "the data set, or describes other columns than its file has",
        probe="pwd; cat {path|data/dataset_info.json}; the first sample of the data file",
        fix="start in LLaMA-Factory's directory, or pass dataset_dir as a full path. In dataset_info.json, set file_name, "
        "formatting (alpaca or sharegpt) and columns as in the file, and for DPO ranking: true",
        link="https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md",
    ),
    Entry(
        id="llamafactory-template",
        title="Template X does not exist; This model does not support image input. Please check whether the correct `template` is used",
        patterns=(
            r"ValueError: Template (?P<name>\S+) does not exist\.",
            r"model does not support (?P<kind>image|video|audio) input\. Please check whether the correct `template` is used",
            r"(?:[Pp]rocessor|feature extractor) was not found, please check and update your model file",
        ),
        cause="LLaMA-Factory's template does not fit[: it has none with the name {name}][: this one takes no {kind}]. The name is "
        "misspelled or newer than the installed version, or the model's directory has no preprocessor_config.json",
        probe="pip show llamafactory; grep -n template of the configuration; ls MODEL/*.json",
        fix="take the template of the model from the README's table. For a newer model: pip install -U llamafactory transformers. "
        "Copy preprocessor_config.json with the model",
        link="https://github.com/hiyouga/LLaMA-Factory#supported-models",
    ),
    Entry(
        id="rollout-weights-rejected",
        title="Failed to update parameter online. The full weights of the ModelRunner are partially updated",
        patterns=(r"Failed to update parameter online: (?P<reason>.+?)\.? The full weights",),
        cause="SGLang could not load the trainer's new weights: {reason}. Names, shapes or the quantisation differ between trainer "
        "and server. The server now holds mixed weights",
        probe="pip list | grep -iE 'sglang|slime|verl|megatron|transformers'; the parallel sizes of both sides",
        fix="install the SGLang that the trainer (slime, verl) requires, with one model and one quantisation on both sides. Then "
        "start the server again",
        link="https://github.com/sgl-project/sglang/issues/26032",
    ),
    Entry(
        id="rollout-hangs",
        title="Watchdog timeout (self.watchdog_timeout=300); Health check failed. Server couldn't get a response from detokenizer",
        doubtful=True,
        patterns=(
            r"[Ww]atchdog timeout \(self\.watchdog_timeout=(?P<seconds>[\d.]+)(?!.*soft=True)",
            r"Server couldn't get a response from detokenizer for last (?P<seconds>\d+) seconds",
        ),
        cause="SGLang finished no step in {seconds} seconds. A collective waits for a rank that failed, a kernel is being compiled, "
        "or a batch is too large",
        probe="the first error of the other ranks; the stacks of py-spy that SGLang prints; nvidia-smi",
        fix="correct the first error of another rank. If it is only slow: a larger --watchdog-timeout, or a smaller "
        "--chunked-prefill-size and --max-running-requests",
        link="https://docs.sglang.ai/advanced_features/server_arguments.html",
    ),
    Entry(
        id="vllm-sleep-memory",
        title="Expandable segments are not compatible with memory pool; CUDA Error: invalid argument at cumem_allocator.cpp",
        patterns=(
            r"Expandable segments are not compatible with memory pool",
            r"CUDA Error: (?P<reason>.+) at \S*cumem_allocator\.cpp:\d+",
        ),
        explains=("vllm-engine-failed",),
        cause="vLLM's sleep mode maps GPU memory itself, and could not[: {reason}]. It does not work with expandable_segments in "
        "PYTORCH_CUDA_ALLOC_CONF, nor on a GPU that is full: the trainer keeps its part of the memory while vLLM wakes up",
        probe="echo $PYTORCH_CUDA_ALLOC_CONF; nvidia-smi",
        fix="remove expandable_segments from PYTORCH_CUDA_ALLOC_CONF. On a full GPU: a lower gpu_memory_utilization, a larger tensor "
        "parallel size, and offload of the trainer's parameters and optimizer. Otherwise a newer vLLM, or no "
        "sleep mode (TRL: vllm_enable_sleep_mode=False; verl: rollout.free_cache_engine=False)",
        link="https://github.com/pytorch/pytorch/issues/147851",
    ),
    Entry(
        id="vllm-parallel-sizes",
        title="shape '[1, 1, 1]' is invalid for input of size 4, in initialize_model_parallel",
        patterns=(r"shape '(?P<layout>\[(?:-?\d+, ){2,4}\d+\])' is invalid for input of size (?P<ranks>\d{1,4})$",),
        needs=r"parallel_state\.py\W.*in initialize_model_parallel",
        explains=("shapes-differ",),
        cause="vLLM divides the {ranks} ranks of the launch into groups of {layout}, and that does not come out even. Its tensor, "
        "pipeline and data parallel sizes do not fit the number of ranks",
        probe="echo $WORLD_SIZE; grep -rn parallel_size of the script and its configuration",
        fix="choose parallel sizes whose product divides {ranks}. Inside of torchrun, vLLM needs "
        "distributed_executor_backend='external_launcher'. Or start it as a server of its own (vllm_mode='server')",
        link="https://github.com/modelscope/ms-swift/issues/3522",
    ),
    Entry(
        id="vllm-communicator",
        title="NCCL error: unhandled system error, at init_communicator of a vLLM server",
        patterns=(r"NCCL error: (?P<reason>unhandled \w+ error|invalid usage)",),
        needs=r"\binit_communicator\b|/vllm_client\.py",
        explains=("nccl-error",),
        cause="the trainer and its vLLM server could not open the NCCL group for new weights ({reason}). An earlier trainer left its "
        "group open in the server, or both use one GPU",
        probe="nvidia-smi: processes of the server and of the trainer; the server's log, with NCCL_DEBUG=WARN",
        fix="start `trl vllm-serve` (ms-swift: swift rollout) again before each trainer, on GPUs of its own (CUDA_VISIBLE_DEVICES). "
        "With one GPU: vllm_mode='colocate'",
        link="https://github.com/huggingface/trl/issues/3408",
    ),
    Entry(
        id="unsloth-cache",
        title="module 'UnslothPPOTrainer' has no attribute 'UnslothPPOTrainer'",
        patterns=(
            r"module '(?P<module>Unsloth\w+)' has no attribute '(?P=module)'",
            r"Direct module loading failed for (?P<module>Unsloth\w+)",
        ),
        explains=("torch-attribute",),
        cause="Unsloth writes {module} to unsloth_compiled_cache when it is imported. Several ranks wrote it at the same time, or it "
        "is of another version",
        probe="ls -l unsloth_compiled_cache; pip list | grep -iE 'unsloth|trl|transformers'",
        fix="delete unsloth_compiled_cache. Give each rank a directory of its own before `import unsloth`, in "
        "os.environ['UNSLOTH_COMPILE_LOCATION'], or update: pip install -U unsloth unsloth_zoo",
        link="https://github.com/unslothai/unsloth/issues/3031",
    ),
    Entry(
        id="options-conflict",
        title="DeepSpeed ZeRO-3 or FSDP is incompatible with PTQ-quantized models; QAT and PEFT cannot be used together",
        patterns=(
            r"(?:Value|Assertion|NotImplemented)Error: (?P<first>[^:\n]{2,80}?) (?:is|are) incompatible with (?!the layer)(?P<second>[^.,:\n]{2,80})",
            r"(?:Value|Assertion|NotImplemented)Error: (?P<first>[^:\n]{2,80}?) (?:is|are) not compatible with (?P<second>[^.,:\n]{2,80})",
            r"(?:Value|Assertion|NotImplemented)Error: (?P<first>[^:\n]{2,80}?) and (?P<second>[^:\n]{2,80}?) cannot (?:both )?be (?:used|enabled|set) (?:together|simultaneously|at the same time)",
            r"(?:Value|Assertion|NotImplemented)Error: When using (?P<first>[^\n]{2,90}?), you must enable (?P<second>`\w+`)",
        ),
        cause="two settings of the run do not fit together: {first}, and {second}",
        probe="grep -rn both names in the configuration and the command",
        fix="change one of the two, as the message explains",
        link="https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/hparams/parser.py",
    ),
    Entry(
        id="labels-all-ignored",
        title="All labels in your dataset are -100; no samples left after dropping samples with no trainable tokens",
        patterns=(
            r"Unsloth: All (?:VLM )?labels in your dataset are -100",
            r"no samples left after dropping samples with no trainable tokens",
        ),
        cause="no token of the data is trained, as all labels are -100. The markers of user and assistant do not occur in the "
        "formatted text, or a maximum length cuts the answers off",
        probe="print(tokenizer.decode(dataset[0]['input_ids'])); print(dataset[0]['labels'])",
        fix="correct instruction_part and response_part (train_on_responses_only), or roles_to_train and the chat template, to the "
        "markers in that text. Raise the maximum length",
        link="https://docs.unsloth.ai/get-started/fine-tuning-llms-guide",
    ),
    Entry(
        id="server-weight-names",
        title="no module or parameter named '_orig_mod' in Qwen2ForCausalLM; KeyError: '...base_layer.weight' in load_weights",
        patterns=(
            r"There is no module or parameter named '(?P<name>[\w.]+)' in \w+",
            r"Following weights were not initialized from checkpoint: \{?'?(?P<name>[\w.]*)",
            r"KeyError: '(?P<name>[\w.]+\.(?:weight|bias)|[\w.]*lora_[AB][\w.]*)'",
        ),
        needs=r"(?:vllm|sglang)/.*\bload_weights\b|no module or parameter named|were not initialized from",
        explains=("vllm-engine-failed", "checkpoint-mismatch"),
        cause="the names of the weights do not fit the model of vLLM or SGLang[: {name}]. The trainer sends or saved the names of a "
        "wrapper (LoRA, torch.compile, FSDP), or the files are of another model or version",
        probe="print(list(state_dict)[:20]); pip list | grep -iE 'vllm|sglang|transformers|peft|verl|openrlhf'",
        fix="send or save the names of the bare model: model.merge_and_unload() for LoRA, model._orig_mod after torch.compile. "
        "Install the vLLM or SGLang that the trainer requires, and use LoRA with it only where its documentation allows it",
        link="https://github.com/vllm-project/vllm/issues/12783",
    ),
    Entry(
        id="chat-template-refused",
        title="jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/assistant/...",
        patterns=(r"jinja2\.exceptions\.(?:TemplateError|UndefinedError): (?P<reason>\S.*)",),
        cause="the model's chat template refuses a conversation of the data set: {reason}. Its roles, their order or its fields are "
        "others than the template expects",
        probe="print(tokenizer.chat_template); print the messages of the first sample",
        fix="correct the data: roles user and assistant in turn, content in each message, and for some models no system role. Or "
        "set tokenizer.chat_template to one that accepts it",
        link="https://github.com/huggingface/alignment-handbook/issues/93",
    ),
    Entry(
        id="text-not-string",
        title="TextEncodeInput must be Union[TextInputSequence, ...]; text input must be of type `str`",
        patterns=(
            r"(?:Text|PreTokenized)(?:EncodeInput|InputSequence) must be (?P<kinds>\w.*)",
            r"text input must be of type `str`",
        ),
        cause="the tokenizer received a text that is not a string. Usually a sample's field is None or a number: an empty cell of a table, "
        "or a key that the data set does not have",
        probe="print the samples whose text is no string: [i for i, s in enumerate(ds) if not isinstance(s['text'], str)]",
        fix="drop or fill such samples before the tokenizer (datasets: ds.filter; pandas: dropna), and check the name of the text's "
        "field. A batch must be a list of strings",
        link="https://github.com/huggingface/transformers/issues/13115",
    ),
    Entry(
        id="vllm-server-waits",
        title="Server is not up yet. Retrying in 2.0 seconds",
        kind="hint",
        patterns=(r"Server is not up yet\. Retrying in",),
        overcome_by=r"Server is up!",
        cause="the trainer waits for its vLLM server, which is not started, still loads its model, or is at another address",
        probe="curl -sS http://HOST:8000/health, on the trainer's host; the log of the server",
        fix="start `trl vllm-serve --model NAME` before the trainer, and pass its vllm_server_host and vllm_server_port",
        link="https://github.com/huggingface/open-r1/issues/568",
    ),
    Entry(
        id="checkpoint-parts",
        title="AssertionError: Loading a checkpoint for MP=0 but world size is 1",
        patterns=(r"Loading a checkpoint for MP=(?P<saved>\d+) but world size is (?P<now>\w+)",),
        cause="the directory of the checkpoint holds {saved} parts (*.pth), and the model is split over {now} ranks. Each rank "
        "loads one part. With 0 parts, the path is wrong, or the files are of another format (safetensors)",
        probe="ls -l CKPT_DIR/*.pth",
        fix="pass the directory with consolidated.*.pth as a full path, and start one rank for each of these files: "
        "torchrun --nproc-per-node PARTS (7B: 1, 13B: 2, 70B: 8)",
        link="https://github.com/meta-llama/llama/issues/551",
    ),
    Entry(
        id="lightning-local-rank",
        title="Lightning attempted to launch new distributed processes with `local_rank > 0`",
        patterns=(r"Lightning attempted to launch new distributed processes with",),
        cause="LOCAL_RANK was set before Lightning started, and Lightning did not recognise a launcher. So this process would start "
        "ranks of its own. Usual: mpirun, or a variable of an earlier run",
        probe="env | grep -E '^(LOCAL_RANK|RANK|WORLD_SIZE|MASTER_ADDR|SLURM_NTASKS|OMPI_COMM_WORLD_SIZE)='",
        fix="start the script once, without a launcher, after unset LOCAL_RANK NODE_RANK. Or with a launcher that sets all "
        "variables, as torchrun does",
        link="https://lightning.ai/docs/pytorch/stable/clouds/cluster_intermediate_1.html",
    ),
    Entry(
        id="zero-stage-unsupported",
        title="AssertionError: ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism",
        patterns=(
            r"ZeRO-2 and ZeRO-3 are incompatible with (?P<what>pipeline parallelism)",
            r"AssertionError: (?P<what>MoE) not supported with Stage 3",
            r"(?P<what>`auto_find_batch_size`) isn't supported yet with DeepSpeed Zero-3",
        ),
        explains=("options-conflict",),
        cause="DeepSpeed does not support this stage of ZeRO together with {what}",
        probe="grep -n '\"stage\"' of the DeepSpeed configuration",
        fix='set "stage": 1 in zero_optimization, or turn {what} off',
        link="https://www.deepspeed.ai/tutorials/pipeline/",
    ),
    Entry(
        id="parallel-groups-twice",
        title="AssertionError: tensor model parallel group is already initialized",
        patterns=(
            r"AssertionError: (?P<name>[\w +-]*parallel) group is already initialized",
            r"AssertionError: (?P<name>args|timers|tokenizer|num microbatches calculator) is already initialized",
        ),
        cause="the groups of parallel ranks, or Megatron's global objects, were made twice in one process ({name}). Usual: a second model or engine in it, a cell "
        "of a notebook that ran twice, or a second initialize_model_parallel",
        probe="grep -rnE 'initialize_model_parallel|deepspeed.initialize|zero.Init|LLM\\(' of the script",
        fix="make one model or engine in a process, and restart the kernel of a notebook. Call initialize_model_parallel "
        "once, after destroy_model_parallel. With ZeRO++: zero_hpz_partition_size 1",
        link="https://github.com/vllm-project/vllm/issues/549",
    ),
    Entry(
        id="megatron-scheduler-differs",
        title="OptimizerParamScheduler: class input value 0.0001 and checkpointvalue 0.00015 for learning rate do not match",
        patterns=(
            r"(?:OptimizerParamScheduler|AnnealingLR): class input value (?P<now>\S+) and checkpoint[ ]?value (?P<saved>\S+) for (?P<name>.+?) do not match",
        ),
        cause="the checkpoint was made with {saved} as {name}, and this run was started with {now}",
        probe="compare --lr, --min-lr, --lr-warmup-*, --lr-decay-*, --train-iters and --weight-decay with those of the first run",
        fix="pass the values of the first run, or add --override-opt_param-scheduler (the new values count) or "
        "--use-checkpoint-opt_param-scheduler (the saved ones count)",
        link="https://github.com/NVIDIA/Megatron-LM/pull/1284",
    ),
    Entry(
        id="trainer-part-missing",
        title="MisconfigurationException: `train_dataloader` must be implemented; Trainer: training requires a train_dataset",
        patterns=(
            r"`(?P<what>\w+_dataloader)` must be implemented to be used with the Lightning Trainer",
            r"MisconfigurationException: No `(?P<what>\w+)(?:\(\))?` (?:method|is) defined",
            r"Trainer: (?:training|evaluation) requires an? (?P<what>\w+)",
            r"but you didn't pass an `?(?P<what>eval_dataset)",
            r"cannot be used as is for training: it only computes hidden states and does not accept any (?P<what>labels)",
            r"does not implement __len__, .*(?P<what>max_steps) has to be specified",
            r"(?P<what>max_steps) must be set to a positive value if dataloader does not have a length",
            r"multiple optimizers is only supported with (?P<what>manual optimization)",
            r"`(?:Trainer|Fabric)\((?P<what>devices)=\S*\)` value is not a valid input using",
        ),
        cause="the Trainer needs {what}, and the script does not give it. A method of a similar name, or a data module that was not "
        "passed, is not found",
        probe="grep -n {what} of the script",
        fix="pass or define {what}. Lightning: trainer.fit(model, datamodule=...) or train_dataloaders=...; transformers: an "
        "argument of Trainer, and a model class with a head for the task",
        link="https://lightning.ai/docs/pytorch/stable/common/trainer.html",
    ),
    Entry(
        id="cleanup-hides-error",
        title="NameError: name 'trainer' is not defined, in main.py of latent diffusion",
        kind="generic",
        patterns=(r"NameError: name 'trainer' is not defined",),
        needs=r"\btrainer\.(?:global_rank|profiler)",
        cause="main.py failed before it made its trainer, and the code of its `finally` reports the missing name in place of that "
        "error. Usual: a wrong path in --base or --resume, an option that is not accepted, or --gpus 0 without a comma",
        probe="the traceback or the usage text above it",
        fix="correct the first error. If none is shown: check that each file of the command exists, write --gpus 0, with the "
        "comma, and remove the `finally` block of main.py to see it",
        link="https://github.com/CompVis/latent-diffusion/issues/275",
    ),
    Entry(
        id="loss-printed-nan",
        title="loss: nan; {'loss': 0.0, 'grad_norm': nan}",
        kind="hint",
        patterns=(
            r"(?i)(?<![\w.])loss['\"]?(?:[:=]|\s)\s*'?nan\b",
            r"'loss': '?0(?:\.0)?'?, 'grad_norm': '?nan\b",
            r"\bloss scale: 1\.0 \| grad norm: -?(?:nan|inf)\b",
        ),
        cause="the loss of the training is NaN, and the run continues: the model learns nothing from there on. The learning rate is too "
        "large, fp16 overflows, or a sample is invalid (an empty box, a label out of range)",
        probe="the first step at which it is printed; repeat with torch.autograd.set_detect_anomaly(True)",
        fix="use bf16 instead of fp16, a lower learning rate with a warm-up, and gradient clipping. Check the batch of the first "
        "such step, and start again from a checkpoint before it. DeepSpeed 0.13 to 0.14.2 did this: update it",
        link="https://github.com/deepspeedai/DeepSpeed/issues/5242",
    ),
    Entry(
        id="yapf-version",
        title="TypeError: FormatCode() got an unexpected keyword argument 'verify'; Failed to format the config file",
        patterns=(
            r"FormatCode\(\) got an unexpected keyword argument",
            r"SyntaxError: Failed to format the config file, please check the syntax of",
        ),
        cause="mmcv or mmengine prints its configuration with yapf, and the installed yapf does not accept the call: it is newer than "
        "0.40.1. Less often, a value of the configuration is no valid Python",
        probe="pip list | grep -iE 'yapf|mmcv|mmengine'",
        fix="pip install yapf==0.40.1, or pip install -U mmengine. If it remains: leave objects and custom classes out of the "
        "configuration",
        link="https://github.com/open-mmlab/mmdetection/issues/10962",
    ),
    Entry(
        id="loss-names-differ",
        title="AssertionError: loss log variables are different across GPUs!",
        patterns=(
            r"loss log variables are different across GPUs",
            r"All dicts must have the same number of keys",
        ),
        context=r"(?:^|\s)rank (?P<rank>\d+) len\(log_vars\): \d+ keys: (?P<name>\S+)",
        cause="the ranks return different losses for one step. A head leaves out a loss if its batch has no objects or no valid samples",
        probe="the lines `rank N len(log_vars)` below: which key is missing on which rank",
        fix="return each loss on every rank: for an empty batch pred.sum() * 0. Or leave out images without objects "
        "(filter_empty_gt=True)",
        link="https://github.com/open-mmlab/mmdetection/issues/8687",
    ),
    Entry(
        id="megatron-state-missing",
        title="Unable to load optimizer from checkpoint. Specify --no-load-optim or --finetune",
        patterns=(
            r"Unable to load (?P<what>[\w ]+?) from checkpoint (?P<path>\S+?)[.,] .*Specify (?P<option>--no-load-\w+) or --finetune",
        ),
        cause="the checkpoint {path} has no state of the {what}: it was saved without it (--no-save-optim, --no-save-rng), was "
        "converted from another format, or belongs to another version of Megatron. The program then ends",
        probe="ls -lR {path|CHECKPOINT}",
        fix="add {option} to continue without this state, or --finetune to start at step 0 with the weights alone. To resume "
        "fully, load a checkpoint that the training saved with the same options",
        link="https://github.com/THUDM/SwissArmyTransformer/issues/137",
    ),
    Entry(
        id="gradient-norm-zero",
        title="AssertionError: assert all_groups_norm > 0, in bf16_optimizer.py of DeepSpeed",
        patterns=(r"assert all_groups_norm > 0",),
        cause="the norm of all gradients is 0, NaN or infinite, and DeepSpeed's bf16 optimizer ends the run. Usual: all labels of a "
        "batch are masked (-100), or the loss is NaN",
        probe="print(loss, (labels != -100).sum()) of each step; the loss in the last lines above",
        fix="leave out samples without labels (a prompt that fills the whole length), lower the learning rate, and clip "
        "gradients. Check that the optimizer has the parameters that are trained",
        link="https://github.com/deepspeedai/DeepSpeed/issues/5223",
    ),
    Entry(
        id="megatron-checkpoint-format",
        title="CheckpointingException: ... is not a distributed checkpoint",
        patterns=(r"CheckpointingException: (?P<path>\S+) is not a distributed checkpoint",),
        cause="{path} is not in the format of megatron.core.dist_checkpointing: it has no metadata.json. It is of the older format "
        "(mp_rank_XX), of Hugging Face, of another directory, or its saving was cut off",
        probe="ls {path}",
        fix="pass the directory that has latest_checkpointed_iteration.txt. For the older format: --ckpt-format torch, and "
        "without --use-dist-ckpt. Convert others with the tools of Megatron (tools/checkpoint/convert.py)",
        link="https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/dist_checkpointing.html",
    ),
    Entry(
        id="detectron2-dataset-string",
        title="KeyError: \"Dataset 'm' is not registered!\", a name of one letter",
        patterns=(r"Dataset '(?P<name>\w)' is not registered",),
        explains=("not-in-registry",),
        cause="cfg.DATASETS.TRAIN or TEST is a string, so detectron2 takes each letter of it for a data set. A tuple of one name "
        "needs a comma",
        probe="grep -rnE 'DATASETS' of the script and the configuration",
        fix='cfg.DATASETS.TEST = ("my_dataset_val",), with the comma; in YAML: TEST: ("my_dataset_val",)',
        link="https://github.com/facebookresearch/detectron2/issues/1946",
    ),
    Entry(
        id="run-already-finished",
        title="The max_duration (10ba) is less than or equal to the elapsed training duration; You restored a checkpoint with current_epoch=11",
        patterns=(
            r"The max_duration \((?P<limit>\S+)\) is less than or equal to the elapsed training duration \((?P<done>\S+)\)",
            r"You restored a checkpoint with current_epoch=(?P<done>\d+), but you have set Trainer\(max_epochs=(?P<limit>\d+)\)",
        ),
        cause="the run continued from a checkpoint at {done}, and its limit is {limit}: nothing is left to train. An earlier run "
        "with the same name or directory was finished, or the checkpoint is of a longer run",
        probe="ls -l of the checkpoint directory; grep -rnE 'max_duration|max_epochs|autoresume|ckpt_path' of the configuration",
        fix="raise the limit (max_duration, max_epochs). For a new run: another run name and directory, or no automatic resuming "
        "(composer: autoresume: false). For the weights alone: load_weights_only, or load_state_dict",
        link="https://github.com/mosaicml/llm-foundry/issues/544",
    ),
    Entry(
        id="megatron-bucket-waits",
        title="AssertionError: Communication call has not been issued for this bucket (12/14 params have grad available)",
        patterns=(
            r"Communication call has not been issued for this bucket(?: \((?P<done>\d+)/(?P<all>\d+) params)?",
            r"Found (?P<done>\d+) out of (?P<all>\d+) parameters that are ready for",
            r"param\.grad being None is not safe when overlap_grad_reduce is True",
        ),
        cause="Megatron sends the gradients of a bucket once all its parameters have one[, and only {done} of {all} had]. Some "
        "parameters require a gradient, and the forward pass of this step did not use them",
        probe="after a backward on one rank: print([n for n, p in model.named_parameters() if p.requires_grad and p.grad is None "
        "and getattr(p, 'main_grad', None) is None])",
        fix="use each parameter in every step, or freeze it (requires_grad_(False)) before the model is wrapped. Otherwise leave "
        "out --overlap-grad-reduce and --overlap-param-gather",
        link="https://github.com/NVIDIA/Megatron-LM/issues/1150",
    ),
    Entry(
        id="fsdp-one-rank",
        title="NotImplementedError: offload_to_cpu=True and NO_SHARD is not supported yet",
        patterns=(r"offload_to_cpu=True and NO_SHARD is not supported yet",),
        cause="FSDP does not shard this model: it has one rank only, or NO_SHARD was chosen. Then it cannot offload the weights to "
        "the CPU, as the saving of a full state dict asks",
        probe="echo $WORLD_SIZE; grep -rn 'sharding_strategy' of the configuration",
        fix="start two ranks or more, or use DDP for one GPU. To save without a shard: "
        "FullStateDictConfig(offload_to_cpu=False), or state_dict_type='sharded'",
        link="https://github.com/ray-project/ray/issues/37317",
    ),
    Entry(
        id="megatron-shard-missing",
        title="CheckpointingException: Object shard ... not found; Unexpected keys (not found in the checkpoint)",
        patterns=(
            r"CheckpointingException: Object shard (?P<path>\S+) not found",
            r"CheckpointingException: (?P<path>Unexpected keys|Some keys found) .*sharded state dict",
            r"CheckpointingException: Missing (?P<path>\w*\s?shards) after fully parallel loading",
            r"CheckpointingException: (?P<path>Invalid access pattern|Duplicate ShardedObject keys|Cannot find global shape metadata)\b",
            r"KeyError: '(?P<path>nd_reformulated_orig_global_shape)'",
            r"CheckpointingException: Common file (?P<path>\S+) does not exist",
            r"(?P<path>Cannot merge two lists) with different lengths \(",
            r"Different dict keys encountered in `(?P<path>apply_factory_merges)`",
        ),
        explains=("file-missing",),
        cause="the checkpoint and the ranks of this run do not have the same parts[: {path}]. It was saved with other parallel "
        "sizes, optimizers or versions (Megatron, Transformer Engine), for another model, or its saving was cut off",
        probe="ls the checkpoint; grep -rnE 'parallel_size|ckpt_format' of both runs",
        fix="resume with the versions and parallel sizes of the run that saved. To load the weights alone: --finetune, or "
        "--no-load-optim --no-load-rng. To list and skip the parts that differ: --dist-ckpt-strictness log_all",
        link="https://github.com/NVIDIA-NeMo/Speech/issues/8785",
    ),
    Entry(
        id="megatron-optimizer-format",
        title="CheckpointingException: ShardedTensor.flattened_range is not supported",
        patterns=(r"ShardedTensor\.flattened_range is not supported",),
        cause="the program saves or loads the distributed optimizer in a format that this megatron-core no longer has. Since "
        "0.16, it refuses the older default (fully_sharded_model_space)",
        probe="pip show megatron-core",
        fix="upgrade the framework that calls it, or pass metadata={'distrib_optim_sharding_type': 'dp_reshardable'} to "
        "optimizer.sharded_state_dict(). Otherwise: pip install 'megatron-core<0.16'",
        link="https://github.com/areal-project/AReaL/issues/1341",
    ),
    Entry(
        id="ultralytics-own-class",
        title="cannot import name 'CustomTrainer' from '__main__' (.../Ultralytics/DDP/_temp_ojxovo2s.py)",
        patterns=(r"cannot import name '(?P<name>\w+)' from '__main__' \(\S*_temp_\w+\.py\)",),
        explains=("import-name",),
        cause="for several GPUs, ultralytics starts a script of its own, which imports {name} anew. A class that is defined in the "
        "main script or in a notebook cannot be imported there",
        probe="cat the file in the message",
        fix="move {name} to a module of its own (a .py file), import it in the main script, and export PYTHONPATH=$PWD. Keep "
        "model.train() below `if __name__ == '__main__'`",
        link="https://github.com/ultralytics/ultralytics/issues/8331",
    ),
    Entry(
        id="zero3-in-use",
        title="assert not param.ds_active_sub_modules; AssertionError: {'id': 0, 'status': 'AVAILABLE', ... 'active_sub_modules': {372}",
        patterns=(
            r"AssertionError: \{'id': .*'status': 'AVAILABLE'.*'active_sub_modules': \{\d",
            r"assert not param\.ds_active_sub_modules",
        ),
        explains=("zero3-order",),
        cause="ZeRO-3 was to divide gathered weights again, and a module still counts as using them: its hook after forward did not "
        "run. Usual: trl or a script that gathers the model to generate or to save, between forward and backward or without hooks",
        probe="the traceback: who leaves GatheredParameters; pip list | grep -iE 'deepspeed|trl|transformers|accelerate'",
        fix="update deepspeed, trl and accelerate together. In TRL, generate with vLLM (use_vllm), or "
        "ds3_gather_for_generation=False. In own code, gather after optimizer.step() only. Otherwise ZeRO stage 2",
        link="https://github.com/huggingface/open-r1/issues/544",
    ),
    Entry(
        id="lightning-scheduler-class",
        title="The provided lr scheduler `LambdaLR` doesn't follow PyTorch's LRScheduler API",
        patterns=(r"provided lr scheduler `(?P<name>\w+)` doesn't follow PyTorch's LRScheduler API",),
        cause="Lightning does not recognize {name} as a scheduler. torch 2.0 renamed its base class, and Lightning 1.8 and older "
        "check for the old one. Less often it is a class of its own",
        probe="pip list | grep -iE '^torch |lightning'",
        fix="update Lightning to 1.9 or newer, or install torch<2. A class of its own: define lr_scheduler_step(self, scheduler, "
        "metric) in the LightningModule, with scheduler.step()",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/15912",
    ),
    Entry(
        id="lightning-sampler-injection",
        title="TypeError: Lightning can't inject a (distributed) sampler into your batch sampler",
        patterns=(
            r"Lightning can't inject a \(distributed\) sampler into your batch sampler",
            r"Trying to inject a modified sampler into the batch sampler",
            r"Trying to inject (?:custom `Sampler`|parameters|`DistributedSampler`) into the `(?P<name>\w+)` instance",
        ),
        cause="with several ranks, Lightning makes the DataLoader anew with a DistributedSampler. It cannot do so with this batch "
        "sampler or DataLoader class[, {name}], as it does not keep its arguments",
        probe="grep -nE 'batch_sampler|DataLoader\\(' of the script",
        fix="Trainer(use_distributed_sampler=False) (before 2.0: replace_sampler_ddp=False), with a sampler that gives each rank its "
        "own part. Or derive the class from BatchSampler with the same arguments, or from DataLoader with **kwargs",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/19964",
    ),
    Entry(
        id="lightning-step-none",
        title="Skipping the `training_step` by returning None in distributed training is not supported",
        patterns=(
            r"Skipping the `training_step` by returning None in distributed training is not supported",
            r"Skipping backward by returning `None` from your `training_step` is not supported",
        ),
        cause="training_step returned None on this rank, to leave out a batch, and the other ranks wait for its gradients. With several "
        "ranks Lightning refuses that. A forgotten `return loss` does the same",
        probe="grep -nA30 'def training_step' of the script: each path without a return",
        fix="return a loss on every rank: for an empty or bad batch, 0.0 * output.sum(). Or leave out bad samples in the data set",
        link="https://github.com/Lightning-AI/pytorch-lightning/pull/19918",
    ),
    Entry(
        id="lightning-2-removed",
        title="Trainer.__init__() got an unexpected keyword argument 'gpus'; Support for `validation_epoch_end` has been removed in v2.0.0",
        patterns=(
            r"__init__\(\) got an unexpected keyword argument '(?P<name>gpus|tpu_cores|ipus|replace_sampler_ddp|auto_select_gpus|progress_bar_refresh_rate|weights_summary"
            r"|checkpoint_callback|distributed_backend|terminate_on_nan|auto_lr_find|auto_scale_batch_size|track_grad_norm|amp_backend|amp_level"
            r"|resume_from_checkpoint|flush_logs_every_n_steps|stochastic_weight_avg|reload_dataloaders_every_epoch)'",
            r"Support for `(?P<name>\w+_epoch_end)` has been removed in v2\.0\.0",
            r"type object 'Trainer' has no attribute '(?P<name>(?:add|from)_argparse_args|parse_argparser|default_attributes)'",
            r"selected an invalid strategy name: `strategy='?(?P<name>ddp_sharded\w*|fairscale|ddp_fully_sharded|ddp2|horovod|bagua|hivemind|colossalai|fsdp_native|None|ddp_spawn_sharded)\b",
            r"No module named '(?P<name>pytorch_lightning\.(?:plugins\.training_type|utilities\.distributed|metrics|lite|strategies\.fully_sharded)\b[\w.]*)'",
        ),
        needs=r"(?i)lightning|Trainer|_epoch_end",
        explains=("packages-differ", "submodule-missing", "own-exception"),
        cause="the script was written for an older PyTorch Lightning, and the installed one no longer has {name}. Most were removed in 2.0",
        probe="pip list | grep -i lightning; the versions in the project's requirements",
        fix="install the version that the project requires, often pip install 'pytorch-lightning<2'. Or change the script: "
        "accelerator='gpu', devices=N for gpus=N, on_validation_epoch_end for validation_epoch_end, trainer.fit(ckpt_path=...), "
        "strategy='ddp' or 'fsdp'",
        link="https://lightning.ai/docs/pytorch/stable/upgrade/migration_guide.html",
    ),
    Entry(
        id="deepspeed-not-active",
        title="AttributeError: 'DummyOptim' object has no attribute 'step'",
        patterns=(r"'Dummy(?:Optim|Scheduler)' object has no attribute '(?P<attribute>\w+)'",),
        cause="the script uses a place holder for DeepSpeed's optimizer: DeepSpeed is configured, but no engine replaced it here. Mostly "
        "the script was started without a launcher, with one process, or uses it before prepare()",
        probe="echo $WORLD_SIZE $LOCAL_RANK $ACCELERATE_USE_DEEPSPEED in the script's environment",
        fix="start it with torchrun, deepspeed or accelerate launch. For one GPU, leave the DeepSpeed configuration out. In a script of "
        "your own: call accelerator.prepare() first. Or update transformers and accelerate together",
        link="https://github.com/modelscope/ms-swift/issues/1775",
    ),
)
