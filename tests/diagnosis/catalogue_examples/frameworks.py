"""Printed texts of `ddpkit/diagnosis/catalogue/frameworks.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "batch-not-divisible": (
        (
            "ValueError: The global train batch size (7 x 1) must be evenly divisible by the number of generations per prompt (8). Given the current train batch size, the valid values for the number of generations are: [7].",
            "https://github.com/huggingface/open-r1/issues/249",
        ),
        (
            "ValueError: To use a `DataLoader` in `split_batches` mode, the batch size (8) needs to be a round multiple of the number of processes (3).",
            "https://github.com/huggingface/accelerate/issues/358",
        ),
        (
            "AssertionError: only support equal chunk. Got size of DataProto 512 and chunk 6.",
            "https://github.com/hiyouga/EasyR1/issues/44",
        ),
        (
            "AssertionError: ppo_mini_batch_size 0 should be larger than 0 after normalization",
            "https://github.com/PRIME-RL/TTRL/issues/43",
        ),
        ("ValueError: train_batch_size (32) must be >= actor.ppo_mini_batch_size (128)", "verl 0.9, source"),
    ),
    "gradients-nan": (
        (
            "rank   0 = nan",
            "https://github.com/facebookresearch/fairseq/issues/1372",
        ),
    ),
    "gradients-differ": (
        (
            "grad_norm across the workers:",
            "https://github.com/OFA-Sys/OFA/issues/352",
        ),
        (
            "FloatingPointError: Fatal error: gradients are inconsistent between workers. Try --ddp-backend=legacy_ddp. Or are you mixing up different generation of GPUs in training?",
            "https://github.com/facebookresearch/fairseq/issues/3920",
        ),
    ),
    "zero-no-sync": (
        (
            "AssertionError: no_sync context manager is incompatible with gradient partitioning logic of ZeRO stage 2",
            "https://github.com/hustvl/mmMamba/issues/5",
        ),
    ),
    "zero-reduced-twice": (
        (
            "AssertionError: The parameter 657 has already been reduced.             Gradient computed twice for this partition.             Multiple gradient reduction is currently not supported",
            "https://github.com/OpenBMB/MiniCPM-V/issues/423",
        ),
    ),
    "zero3-order": (
        (
            "RuntimeError: tracing error at step 603:",
            "https://github.com/QwenLM/Qwen-VL/issues/412",
        ),
        (
            "expected the next 1 parameters in the parameter fetch queue to be ({'id': 'name=transformer.visual.conv1.weight id=194', 'status': 'AVAILABLE'},)",
            "https://github.com/QwenLM/Qwen-VL/issues/412",
        ),
        (
            "RuntimeError: still have inflight params [{'id': 52, 'status': 'AVAILABLE', 'numel': 4096, 'ds_numel': 4096, 'shape': (4096,), 'ds_shape': (4096,), 'requires_grad': True, 'grad_shape': None, 'persist': False, 'active_sub_modules': {12}, 'ds_tensor.shape': torch.Size([512])}]",
            "DeepSpeed 0.14, source",
        ),
        (
            "RuntimeError: {'id': 1014, 'status': 'INFLIGHT', 'numel': 0, 'ds_numel': 0, 'shape': (0,)} already in registry",
            "https://github.com/deepspeedai/DeepSpeed/issues/3528",
        ),
        (
            "RuntimeError: disagreement between rank0 and rank1: rank0: [0, 1, 2], rank1: [0, 1, 3]",
            "https://github.com/deepspeedai/DeepSpeed/issues/5799",
        ),
        (
            "AssertionError: {'id': 786, 'status': 'INFLIGHT', 'numel': 38603520, 'ds_numel': 38603520, 'shape': (50265, 768), 'ds_shape': (50265, 768), 'requires_grad': False, 'grad_shape': None, 'persist': False, 'active_sub_modules': {3}}",
            "https://github.com/deepspeedai/DeepSpeed/issues/3068",
        ),
        (
            "RuntimeError: param {'id': 5, 'status': 'INFLIGHT', 'numel': 0, 'ds_numel': 4096} still in flight",
            "deepspeed 0.10.3, source",
        ),
        (
            "RuntimeError: expected param {'id': 5, 'status': 'INFLIGHT', 'numel': 0, 'ds_numel': 4096} to be available",
            "deepspeed 0.10.3, source",
        ),
        (
            "RuntimeError: attempted to add non-inflight parameter to registry {'id': 5, 'status': 'AVAILABLE', 'numel': 4096}",
            "deepspeed 0.10.3, source",
        ),
        (
            "RuntimeError: expect param.ds_status == ZeroParamStatus.NOT_AVAILABLE, got{'id': 5, 'status': 'AVAILABLE', 'numel': 4096}",
            "deepspeed 0.10.3, source",
        ),
        (
            "RuntimeError: Detected a disagreement on list contents between rank0 and rank3: ",
            "deepspeed 0.19.8, source",
        ),
    ),
    "zero3-low-memory-load": (
        (
            "ValueError: DeepSpeed Zero-3 is not compatible with `low_cpu_mem_usage=True` or with passing a `device_map`.",
            "https://github.com/stanleylsx/llms_tool/issues/73",
        ),
    ),
    "zero3-mixed-dtypes": (
        (
            "RuntimeError: expected there to be only one unique element in <generator object Init._convert_to_deepspeed_param.<locals>.all_gather_coalesced.<locals>.<genexpr> at 0x7f0f04211eb0>",
            "https://github.com/axolotl-ai-cloud/axolotl/issues/207",
        ),
        (
            "RuntimeError: output tensor must have the same type as input tensor",
            "https://github.com/deepspeedai/DeepSpeed/issues/4068",
        ),
    ),
    "zero-optimizer": (
        (
            "deepspeed.runtime.zero.utils.ZeRORuntimeException: You are using ZeRO-Offload with a client provided optimizer (<class 'transformers.optimization.AdamW'>) which in most cases will yield poor performance. Please either use deepspeed.ops.adam.DeepSpeedCPUAdam or set an optimizer in your ds-config (https://www.deepspeed.ai/docs/config-json/#optimizer-parameters). If you really want to use a custom optimizer w. ZeRO-Offload and understand the performance impacts you can also set <\"zero_force_ds_cpu_optimizer\": false> in your configuration file.",
            "https://github.com/OptimalScale/LMFlow/issues/470",
        ),
        (
            'AssertionError: You are using an untested ZeRO Optimizer. Please add <"zero_allow_untested_optimizer": true> in the configuration file to use it.',
            "DeepSpeed 0.16.9, source",
        ),
        (
            "AssertionError: CPUAdam param is on cuda:0 and must be 'cpu', make sure you enabled 'offload_optimizer': 'cpu' in your ZeRO config.",
            "DeepSpeed 0.16, source",
        ),
    ),
    "zero-no-optimizer": (
        (
            "AttributeError: 'DeepSpeedZeRoOffload' object has no attribute 'backward'",
            "DeepSpeed 0.16.4, source",
        ),
        (
            "ValueError: max() arg is an empty sequence\n    largest_numel = max([sum([p.ds_numel for p in psg]) for psg in self.fp16_partitioned_groups])",
            "https://github.com/hiyouga/LlamaFactory/issues/2546",
        ),
        (
            "AssertionError: zero stage 2 requires an optimizer",
            "https://github.com/deepspeedai/DeepSpeed/issues/4068",
        ),
        (
            "AssertionError: must provide optimizer during init in order to use backward",
            "https://github.com/enhuiz/vall-e/issues/67",
        ),
    ),
    "nvme-offload": (
        (
            "/zero_stage_3/optimizer/rank1/140302004385408_gradient_988164096_75497472.tensor.swp: buffer nbytes != file bytes 301989888 != 0",
            "https://github.com/deepspeedai/DeepSpeed/issues/1627",
        ),
        (
            "python: /opt/conda/lib/python3.9/site-packages/deepspeed/ops/csrc/aio/py_lib/deepspeed_py_aio_handle.cpp:223: int deepspeed_aio_handle_t::pread(const at::Tensor&, const char*, bool, bool): Assertion `static_cast<long long int>(buffer.nbytes()) == num_file_bytes' failed.",
            "https://github.com/deepspeedai/DeepSpeed/issues/1627",
        ),
        (
            "python: /opt/conda/lib/python3.10/site-packages/deepspeed/ops/csrc/aio/common/deepspeed_aio_common.cpp:125: int _do_io_complete(long long int, long long int, std::unique_ptr<aio_context>&, std::vector<std::chrono::duration<double> >&): Assertion `n_completes >= min_completes' failed.",
            "https://github.com/deepspeedai/DeepSpeed/issues/4888",
        ),
        (
            "deepspeed_aio:   fstat for read failed on /lscratch/26730337/offload/param/zero_stage_3/bfloat16params/rank0/291_param.tensor.swp error = 2",
            "https://github.com/deepspeedai/DeepSpeed/issues/5538",
        ),
    ),
    "nvme-offload-buffer": (
        (
            "AssertionError: More elements 524709888 than buffer size 100,000,000",
            "https://github.com/deepspeedai/DeepSpeed/issues/3506",
        ),
    ),
    "nvme-offload-not-set-up": (
        (
            "AttributeError: 'NoneType' object has no attribute 'available_swap_in_buffers'",
            "https://github.com/deepspeedai/DeepSpeed/issues/1035",
        ),
        (
            "AttributeError: type object 'Init' has no attribute 'quantizer_module'",
            "https://github.com/deepspeedai/DeepSpeed/issues/4943",
        ),
    ),
    "deepspeed-set-twice": (
        (
            "ValueError: You cannot specify an optimizer in the config file and in the code at the same time. Please remove the optimizer from the config file or create `accelerate.utils.DummyOptim` in the code.",
            "accelerate, source",
        ),
        (
            "ValueError: You cannot create a `DummyOptim` without specifying an optimizer in the config file.",
            "accelerate 1.3, source",
        ),
        (
            "lightning.fabric.utilities.exceptions.MisconfigurationException: Do not set `gradient_accumulation_steps` in the DeepSpeed config as this will be set with the `accumulate_grad_batches` argument passed via the Lightning Trainer.",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/19891",
        ),
        (
            "ValueError: When using `deepspeed_config_file`, the following accelerate config variables will be ignored: ['gradient_accumulation_steps', 'zero_stage'].",
            "accelerate 1.3.0, source",
        ),
        (
            "AssertionError: bfloat16 and fp16 modes cannot be simultaneously enabled",
            "DeepSpeed 0.16.4, source",
        ),
        (
            "AssertionError: Not sure how to proceed, we were given deepspeed configs in the deepspeed arguments and deepspeed.initialize() function call",
            "https://github.com/EleutherAI/gpt-neox/issues/885",
        ),
    ),
    "deepspeed-config-missing": (
        (
            "AssertionError: Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided",
            "DeepSpeed 0.16, source",
        ),
        (
            "ValueError: When using DeepSpeed, `accelerate.prepare()` requires you to pass at least one of training or evaluation dataloaders with `batch_size` attribute returning an integer value or alternatively set an integer value in `train_micro_batch_size_per_gpu` in the deepspeed config file or assign integer value to `AcceleratorState().deepspeed_plugin.deepspeed_config['train_micro_batch_size_per_gpu']`.",
            "accelerate 1.3, source",
        ),
        (
            "ValueError: Please specify the ZeRO optimization config in the DeepSpeed config.",
            "https://github.com/zjunlp/KnowLM/issues/87",
        ),
        (
            "ValueError: Expected a string path to an existing deepspeed config, or a dictionary or a valid base64. Received: ds_config.json",
            "DeepSpeed 0.16.9, source",
        ),
        (
            "ValueError: Expected a string path to an existing deepspeed config, or a dictionary, or a base64 encoded string. Received: deepspeed_configs/zero3_bf16.json",
            "https://github.com/axolotl-ai-cloud/axolotl/issues/1813",
        ),
        (
            "AssertionError: DeepSpeed requires --deepspeed_config to specify configuration file",
            "DeepSpeed 0.16.4, source",
        ),
        (
            "ValueError: Found `optimizer` configured in the DeepSpeed config, but no `scheduler`. Please configure a scheduler in the DeepSpeed config.",
            "transformers 4.30, source",
        ),
        (
            "ValueError: At least one of the dataloaders passed to `accelerate.prepare()` has `None` as batch size. Please set an integer value in `train_micro_batch_size_per_gpu` in the deepspeed config file or assign integer value to `AcceleratorState().deepspeed_plugin.deepspeed_config['train_micro_batch_size_per_gpu']`.",
            "accelerate 1.15, source",
        ),
    ),
    "deepspeed-two-models": (
        (
            "AssertionError: You can't use same `Accelerator()` instance with multiple models when using DeepSpeed",
            "accelerate 1.3, source",
        ),
    ),
    "resume-file-latest-missing": (
        (
            "[2025-01-10 10:12:15,570] [WARNING] [engine.py:2841:load_checkpoint] Unable to find latest file at /mnt/d/out/20250110_16-17-54/latest, if trying to load latest checkpoint please ensure this file exists or pass an explicit checkpoint tag when loading a checkpoint.",
            "https://github.com/tdrussell/diffusion-pipe/issues/73",
        ),
    ),
    "model-offloaded": (
        (
            "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the quantized model. If you want to dispatch the model on the CPU or the disk while keeping these modules in 32-bit, you need to set `llm_int8_enable_fp32_cpu_offload=True` and pass a custom `device_map` to `from_pretrained`.",
            "transformers 4.49, source",
        ),
        (
            "RuntimeError: You can't move a model that has some modules offloaded to cpu or disk.",
            "accelerate, unverified",
        ),
        (
            "ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision with CPU or disk offload. If you want train the 8-bit or 4-bit model in CPU, please install bitsandbytes with multi-backend",
            "accelerate 1.3.0, source",
        ),
        (
            "ValueError: The current `device_map` had weights offloaded to the disk. Please provide an `offload_folder` for them. Alternatively, make sure you have `safetensors` installed if the model you are using offers the weights in this format.",
            "transformers 4.49, source",
        ),
    ),
    "quantised-model-moved": (
        (
            "ValueError: `.to` is not supported for `8-bit` bitsandbytes models. Please use the model as it is, since the model has already been set to the correct devices and casted to the correct `dtype`.",
            "transformers 4.49, source",
        ),
    ),
    "accelerator-state": (
        (
            "ValueError: AcceleratorState has already been initialized and cannot be changed, restart your runtime completely and pass `mixed_precision='bf16'` to `Accelerator()`.",
            "accelerate 1.3, source",
        ),
        (
            "AttributeError: `AcceleratorState` object has no attribute `distributed_type`. This happens if `AcceleratorState._reset_state()` was called and an `Accelerator` or `PartialState` was not reinitialized.",
            "accelerate 1.3.0, source",
        ),
    ),
    "fsdp-state": (
        (
            "ValueError: expected to be in states [<TrainingState.FORWARD_BACKWARD: 2>] but current state is TrainingState.IDLE",
            "https://github.com/pytorch/pytorch/issues/148756",
        ),
        (
            "AssertionError: Expects `BACKWARD_PRE` or `BACKWARD_POST` state but got HandleTrainingState.FORWARD",
            "torch 2.13, source",
        ),
        (
            "AssertionError: Invalid: ``_post_backward_hook_state``: (<torch.autograd.graph.Node object at 0x7f>, None)",
            "https://github.com/tianweiy/DMD2/issues/41",
        ),
        (
            "AssertionError: The `grad_fn` is needed to access the `AccumulateGrad` and register the post-backward hook",
            "https://github.com/Lightning-AI/litgpt/issues/640",
        ),
        (
            "The `grad_fn` is needed to access the `AccumulateGrad` and register the post-backward hook",
            "https://github.com/pytorch/pytorch/issues/113203",
        ),
        (
            "AssertionError: Expects the handle training to be IDLE but got HandleTrainingState.FORWARD",
            "https://github.com/Lightning-AI/lit-llama/issues/434",
        ),
        (
            "AssertionError: FSDP does not support changing the parameters between forward and backward for ShardingStrategy.SHARD_GRAD_OP",
            "https://github.com/pytorch/pytorch/issues/104504",
        ),
        (
            "AssertionError: Entering the ``_unshard_fsdp_state_params`` context but _unshard_params_ctx[module] is not None.",
            "https://github.com/Ascend/pytorch/issues/72",
        ),
    ),
    "dispatched-batches-differ": (
        (
            'RuntimeError: Sizes of tensors must match except in dimension 0. Expected size 6 but got size 4 for tensor number 1 in the list.\n  File "/opt/lib/python3.10/site-packages/accelerate/data_loader.py", line 549, in _fetch_batches',
            "https://github.com/huggingface/accelerate/issues/2023",
        ),
        (
            "RuntimeError: You can't use batches of different size with `dispatch_batches=True` or when using an `IterableDataset`.either pass `dispatch_batches=False` and have each process fetch its own batch  or pass `split_batches=True`.",
            "accelerate 1.15, source",
        ),
    ),
    "lightning-notebook": (
        (
            "lightning.fabric.utilities.exceptions.MisconfigurationException: `Trainer(strategy='ddp')` is not compatible with an interactive environment. Run your code as a script, or choose a notebook-compatible strategy: `Trainer(strategy='ddp_notebook')`. In case you are spawning processes yourself, make sure to include the Trainer creation inside the worker function.",
            "Lightning 2.4, source",
        ),
    ),
    "lightning-two-packages": (
        (
            "TypeError: `model` must be a `LightningModule` or `torch._dynamo.OptimizedModule`, got `LitModel`",
            "Lightning 2.6.6, source",
        ),
        (
            "ValueError: trainer constructor argument must be either None or pytorch_lightning.Trainer. But got <class 'lightning.pytorch.trainer.trainer.Trainer'> instead.",
            "https://github.com/NVIDIA-NeMo/Speech/issues/11458",
        ),
        (
            "ValueError: You selected an invalid strategy name: `strategy=<lightning.pytorch.strategies.ddp.DDPStrategy object at 0x0000019B575B6070>`. It must be either a string or an instance of `pytorch_lightning.strategies.Strategy`. Example choices: auto, ddp, ddp_spawn, deepspeed, ... Find a complete list of options in our documentation at https://lightning.ai",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/17445",
        ),
    ),
    "val-check-interval": (
        (
            "ValueError: `val_check_interval` (2000) must be less than or equal to the number of the training batches (500). If you want to disable validation set `limit_val_batches` to 0.0 instead. If you want to validate based on the total training batches, set `check_val_every_n_epoch=None`.",
            "Lightning 2.5, source",
        ),
    ),
    "cuda-max-connections": (
        (
            "RuntimeError: Using sequence parallelism requires setting the environment variable CUDA_DEVICE_MAX_CONNECTIONS to 1",
            "Megatron-LM, source",
        ),
    ),
    "megatron-groups-missing": (
        (
            "AssertionError: pipeline_model parallel group is not initialized",
            "https://github.com/zai-org/CodeGeeX/issues/271",
        ),
        (
            "Exception: cuda rng state model-parallel-rng is not added",
            "DeepSpeed 0.16, source",
        ),
    ),
    "deepspeed-no-address": (
        (
            "[2022-12-15 21:00:19,543] [INFO] [runner.py:417:main] Using IP address of  for node ddp-0.ddp.svc.cluster.local",
            "https://github.com/deepspeedai/DeepSpeed/issues/2612",
        ),
    ),
    "launcher-needed": (
        (
            "ValueError: Please use `FORCE_TORCHRUN=1` to launch DeepSpeed training.",
            "LLaMA-Factory, unverified",
        ),
        (
            "RuntimeError: Distributed finetune recipes should be run via a distributed launcher.If using tune CLI, please specify --nnodes 1 and --nproc_per_node [num_gpus]",
            "torchtune, unverified",
        ),
        (
            "ValueError: DeepSpeed is not compatible with MP. n_gpu: 8, local_world_size: 1.",
            "https://github.com/modelscope/ms-swift/issues/2698",
        ),
        (
            "ValueError: Please launch distributed training with `llamafactory-cli` or `torchrun`.",
            "LLaMA-Factory, source",
        ),
        (
            "AssertionError: DeepSpeed requires the LOCAL_RANK environment variable, it is set by the deepspeed launcher, deepspeed.init_distributed, or the torch's launcher. If using a different launcher please ensure LOCAL_RANK is set prior to initializing deepspeed.",
            "DeepSpeed 0.19, source",
        ),
        ("ValueError: Using fsdp only works in distributed training.", "transformers 5.24, source"),
    ),
    "config-value-invalid": (
        (
            "pydantic_core._pydantic_core.ValidationError: 5 validation errors for DeepSpeedBF16Config",
            "https://github.com/ielab/llm-rankers/issues/2",
        ),
        (
            "pydantic.error_wrappers.ValidationError: 1 validation error for DeepSpeedZeroConfig",
            "https://github.com/deepspeedai/DeepSpeedExamples/issues/513",
        ),
        (
            "ValueError: 'max_grad_norm' is not supported as an optimizer parameter, please switch to using the deepspeed parameter 'gradient_clipping' see: https://www.deepspeed.ai/docs/config-json/#gradient-clipping for more details",
            "DeepSpeed 0.19, source",
        ),
    ),
    "settings-refused": (
        (
            "ValueError: Cannot use sequence parallelism without tensor parallelism",
            "megatron-core 0.16.1, source",
        ),
        (
            "ValueError: When using pipeline parallelism, pipeline_dtype must be specified",
            "megatron-core 0.16.1, source",
        ),
        (
            "ValueError: num_moe_experts must be non None to use expert-parallel.",
            "megatron-core 0.16.1, source",
        ),
        (
            "AssertionError: When using MoE and tensor parallelism, sequence parallelism must be used.",
            "https://github.com/ROCm/Megatron-LM/pull/85",
        ),
        (
            "RuntimeError: pipeline-model-parallel size should be greater than 1 with interleaved schedule",
            "megatron-core 0.16.1, source",
        ),
    ),
    "map-worker-died": (
        (
            "RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, disable multiprocessing.",
            "datasets 5.0.1, source",
        ),
    ),
    "dataset-generation-failed": (
        (
            "datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset",
            "datasets 2.20, source",
        ),
    ),
    "output-not-empty": (
        (
            "ValueError: Output directory (out) already exists and is not empty. Use --overwrite_output_dir to overcome.",
            "transformers, unverified",
        ),
        (
            "ValueError: Checkpoint directory out/checkpoints/checkpoint_0 (0) already exists. Please manually override `self.save_iteration` with what iteration to start with.",
            "accelerate 1.15, source",
        ),
        (
            "ValueError: Output directory already exists and is not empty. Please set `overwrite_output_dir`.",
            "llamafactory 0.9, source",
        ),
    ),
    "deepspeed-auto": (
        (
            "  File \"/opt/lib/python3.10/site-packages/deepspeed/runtime/lr_schedules.py\", line 671, TypeError: '>' not supported between instances of 'str' and 'int'",
            "https://github.com/LianjiaTech/BELLE/issues/558",
        ),
        (
            "ValueError: could not convert string to float: 'auto', ds_config.json",
            "Python 3.10 and DeepSpeed, unverified",
        ),
        (
            "ValueError: invalid literal for int() with base 10: 'auto', ds_config.json",
            "Python 3.10 and DeepSpeed, unverified",
        ),
    ),
    "vllm-memory-changed": (
        (
            "AssertionError: Error in memory profiling. Initial free memory 41.2 GiB, current free memory 45.1 GiB. This happens when other processes sharing the same container release GPU memory while vLLM is profiling during initialization.",
            "vLLM, unverified",
        ),
    ),
    "vllm-server-missing": (
        (
            "ConnectionError: The vLLM server can't be reached at http://0.0.0.0:8000 after 240.0 seconds. Make sure the server is running by running `vllm serve`.",
            "TRL 1.13.0, source",
        ),
        (
            "requests.exceptions.ConnectionError: Servers not reachable after 10.0s: ['http://127.0.0.1:8062']",
            "https://github.com/modelscope/ms-swift/issues/5911",
        ),
    ),
    "vllm-server-endpoints": (
        (
            '  File "/opt/venv/lib/python3.11/site-packages/trl/extras/vllm_client.py", line 233, in init_communicator: Exception: Request failed: 404, {"detail":"Not Found"}',
            "https://github.com/huggingface/trl/issues/3587",
        ),
        (
            'INFO:     127.0.0.1:37996 - "GET /get_world_size/ HTTP/1.1" 404 Not Found, vllm serve',
            "https://github.com/huggingface/trl/issues/3561",
        ),
        (
            "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: http://10.0.0.4:8000/init_communicator/, vllm_client.py",
            "requests 2.32, unverified",
        ),
    ),
    "wandb-run-missing": (
        (
            "AttributeError: 'NoneType' object has no attribute 'id'\n    run_id = wandb.run.id",
            "https://github.com/allenai/rslearn_projects/pull/37",
        ),
    ),
    "scheduler-optimizer": (
        (
            "TypeError: DeepSpeedZeroOptimizer is not an Optimizer",
            "https://github.com/deepspeedai/DeepSpeed/issues/6992",
        ),
    ),
    "descriptors-passed-twice": (
        (
            "ValueError: bad value(s) in fds_to_keep",
            "https://github.com/eric-mitchell/direct-preference-optimization/issues/14",
        ),
    ),
    "zero3-generate": (
        (
            'IndexError: pop from an empty deque\n  File "/opt/lib/python3.10/site-packages/deepspeed/runtime/zero/partitioned_param_coordinator.py", line 194, in record_parameters',
            "https://github.com/huggingface/trl/issues/2304",
        ),
    ),
    "cuda-device-expected": (
        (
            "ValueError: Expected a cuda device, but got: cpu",
            "https://github.com/axolotl-ai-cloud/axolotl/issues/1705",
        ),
    ),
    "zero-shard-missing": (
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'llama_13b_pp/global_step001/zero_pp_rank_0_mp_rank_03_optim_states.pt'",
            "https://github.com/HuangLK/transpeeder/issues/28",
        ),
    ),
    "dataset-smaller-than-ranks": (
        (
            "    assert len(indices) == self.total_size",
            "https://github.com/ultralytics/yolov5/issues/475",
        ),
        ("AssertionError: Train dataloader is empty!", "verl 0.9, source"),
    ),
    "zero-backward-bypassed": (
        (
            "AttributeError: 'DeepSpeedZeroOptimizer' object has no attribute 'ipg_index'",
            "https://github.com/deepspeedai/DeepSpeed/issues/6995",
        ),
    ),
    "zero3-parameter-replaced": (
        (
            "AttributeError: 'Parameter' object has no attribute 'ds_numel'",
            "https://github.com/huggingface/peft/issues/623",
        ),
        (
            "AttributeError: 'Parameter' object has no attribute 'ds_status'",
            "https://github.com/baichuan-inc/Baichuan2/issues/215",
        ),
    ),
    "optimizer-of-other-parameters": (
        (
            'KeyError: "A parameter in the optimizer couldn\'t be switched to its sharded version. This breaks the training. Please raise an issue on GitHub."',
            "https://github.com/huggingface/accelerate/issues/3821",
        ),
        (
            "KeyError: \"Parameters missing after FSDP2 wrapping: ['lm_head.weight']\"",
            "accelerate 1.15, source",
        ),
        (
            "ValueError: FSDP2 mapping failed (missing: ['lm_head.weight']). This is likely due to tied embeddings",
            "accelerate 1.15, source",
        ),
        (
            "ValueError: When using FSDP2, a model and optimizer must be passed together to `Accelerator.prepare()` as the optimizer needs to have its parameters modified after the model is converted.",
            "accelerate 1.15, source",
        ),
        (
            "ValueError: The model and the optimizer parameters are not on the same device, which probably means you created an optimizer around your model **before** putting on the device.",
            "accelerate 1.15, source",
        ),
        (
            "ValueError: The optimizer does not seem to reference any FSDP parameters. HINT: Make sure to create the optimizer after setting up the model.",
            "Lightning 2.6, source",
        ),
    ),
    "gather-not-a-tensor": (
        (
            "TypeError: Unsupported types (<class 'NoneType'>) passed to `_gpu_broadcast_one`. Only nested list/tuple/dicts of objects that are valid for `is_torch_tensor` should be passed.",
            "https://github.com/huggingface/transformers/issues/32090",
        ),
        (
            "ValueError: Batch does not contain any data (`None`). At the end of all iterable data available before expected stop iteration.",
            "accelerate 1.15, source",
        ),
        (
            "TypeError: Can only find the batch size of tensors but got <class 'str'>.",
            "accelerate 1.15, source",
        ),
    ),
    "quantised-model-trained": (
        (
            "ValueError: You cannot perform fine-tuning on purely quantized models. Please attach trainable adapters on top of the quantized model to correctly perform fine-tuning. Please see: https://huggingface.co/docs/transformers/peft for more details",
            "https://github.com/unslothai/unsloth/issues/241",
        ),
        (
            "ValueError: The model you are trying to fine-tune is quantized with QuantizationMethod.FP8 but that quantization method do not support training. Please open an issue on GitHub: https://github.com/huggingface/transformers",
            "transformers 5.24, source",
        ),
        ("ValueError: Quantization is only compatible with the LoRA or OFT method.", "llamafactory 0.9, source"),
        ("ValueError: Quantized models can only be used for the LoRA or OFT tuning.", "llamafactory 0.9, source"),
    ),
    "quantised-weights-lost": (
        (
            "AssertionError: FP4 quantization state not initialized. Please call .cuda() or .to(device) on the LinearFP4 layer first.",
            "bitsandbytes, source",
        ),
        (
            "ValueError: Blockwise quantization only supports 16/32-bit floats, but got torch.uint8",
            "bitsandbytes, source",
        ),
        (
            "AttributeError: 'Params4bit' object has no attribute 'absmax'",
            "https://github.com/meta-llama/llama-cookbook/issues/904",
        ),
        (
            "AttributeError: 'Parameter' object has no attribute 'CB'",
            "bitsandbytes, documented",
        ),
    ),
    "save-eval-steps-differ": (
        (
            "ValueError: --load_best_model_at_end requires the saving steps to be a multiple of the evaluation steps, but found 1000, which is not a multiple of 300.",
            "transformers 5.24, source",
        ),
        (
            "ValueError: --load_best_model_at_end requires the save and eval strategy to match, but found",
            "transformers 4.46, unverified",
        ),
    ),
    "dataset-columns": (
        (
            "ValueError: The model did not return a loss from the inputs, only the following keys: logits. For reference, the inputs it received are input_ids,attention_mask.",
            "transformers 5.24, source",
        ),
        (
            "ValueError: No columns in the dataset match the model's forward method signature: (input_ids, labels). The following columns have been ignored: [text].",
            "transformers 5.24, source",
        ),
        (
            "IndexError: Invalid key: 53 is out of bounds for size 0",
            "datasets, source",
        ),
        (
            "ValueError: The batch received was empty, your model won't be able to train on it. Double-check that your training dataset contains keys expected by the model: input_ids,attention_mask,labels.",
            "transformers 5.24, source",
        ),
        (
            "  File \"../lib/python3.8/site-packages/transformers/trainer.py\", line 1776, in compute_loss\nKeyError: 'loss'",
            "https://github.com/huggingface/transformers/issues/12908",
        ),
    ),
    "image-tokens-differ": (
        (
            "ValueError: Image features and image tokens do not match: tokens: 8192, features 9800",
            "EasyR1, documented",
        ),
        (
            "ValueError: Image features and image tokens do not match, tokens: 1000, features: 1024",
            "transformers 5.24, source",
        ),
        (
            "ValueError: Mismatch in `image` token count between text and `input_ids`. Got ids=[1024] and text=[1296]. Likely due to `truncation='max_length'`.",
            "transformers 5.24, source",
        ),
        (
            "ValueError: The number of images does not match the number of <image> tokens in [{'role': 'user', 'content': 'x'}].",
            "LLaMA-Factory, source",
        ),
        (
            "ValueError: Number of images provided (2) does not match number of image placeholders (1).",
            "TRL 1.16, source",
        ),
        (
            "[rank0]: ValueError: Attempted to assign 506 = 506 multimodal tokens to 500 placeholders",
            "sglang 0.5, source",
        ),
        (
            "[rank1]: RuntimeError: shape mismatch: value tensor of shape [49, 1536] cannot be broadcast to indexing result of shape [0, 1536]",
            "https://github.com/2U1/Qwen-VL-Series-Finetune/issues/18",
        ),
        (
            "RuntimeError: shape mismatch: value tensor of shape [3, 19963] cannot be broadcast to indexing result of shape [3, 16467]",
            "https://github.com/microsoft/agent-lightning/issues/441",
        ),
        (
            "ValueError: The input provided to the model are wrong. The number of image tokens is 0 while the number of image given to the model is 2. This prevents correct indexing and breaks batch generation.",
            "transformers, source",
        ),
        (
            "masked_scatter_size_check: block: [0,0,0], thread: [0,0,0] Assertion `totalElements <= srcSize` failed.",
            "https://github.com/modelscope/ms-swift/issues/8371",
        ),
        (
            "ValueError: The current `max_length` (1024) is too short and causes image placeholder tokens in `input_ids` to be truncated, while the corresponding image features remain intact. Please increase `max_length` or set it to `None` to disable truncation.",
            "trl 1.16, source",
        ),
        (
            "ValueError: Number of images does not match number of special image tokens in the input text. Got 255 image tokens in the text but 256 tokens from image embeddings.",
            "axolotl 0.9, source",
        ),
    ),
    "prompt-too-long": (
        (
            "ValueError: Prompt length of 4834 is longer than the maximum model length of 4096.",
            "https://github.com/ritzz-ai/GUI-R1/issues/32",
        ),
        (
            "ValueError: The decoder prompt (length 42861) is longer than the maximum model length of 4096.",
            "https://github.com/agentscope-ai/Trinity-RFT/issues/197",
        ),
        (
            "NotImplementedError: sequence_length=1081 is larger than max_length=1024",
            "https://github.com/verl-project/verl/issues/544",
        ),
        (
            "ValueError: VLM prompt length (5000) exceeds max_prompt_length (4096). Truncating VLM prompts would break image token alignment with pixel_values.",
            "OpenRLHF 0.11, source",
        ),
        (
            "ValueError: User-specified max_model_len (131072) is greater than the derived max_model_len (max_position_embeddings=32768 or model_max_length=None in model's config.json). This may lead to incorrect model outputs or CUDA errors.",
            "vLLM, source",
        ),
        (
            "AssertionError: sentence at index 1234 of size 1500 exceeds max_tokens limit of 1024!",
            "fairseq, unverified",
        ),
        (
            "AssertionError: max_token_len must be greater than the sequence length. Got max_token_len=4096 and max_seq_len=tensor(8192)",
            "verl 0.9, source",
        ),
        (
            "Exception: Size of sample #1210 is invalid (=(1030, 1)) since max_positions=(1024, 1024), skip this example with --skip-invalid-size-inputs-valid-test",
            "fairseq 0.12, source",
        ),
    ),
    "fp8-dimensions": (
        (
            "AssertionError: FP8 execution requires 2D input matrices with height divisible by 8 and width divisible by 16, but got tensor with dims=[896, 712]",
            "https://github.com/NVIDIA/TransformerEngine/issues/1422",
        ),
        (
            "AssertionError: Tensor dimensions are not compatible for FP8 execution: (2048 % 8 != 0, 767 % 16 != 0)",
            "https://github.com/NVIDIA/TransformerEngine/issues/688",
        ),
    ),
    "unsloth-one-gpu": (
        (
            "RuntimeError: Unsloth currently does not work on multi GPU setups - sadly we are a 2 brother team so enabling it will require much more work, so we have to prioritize. Please understand!",
            "https://github.com/unslothai/unsloth/issues/724",
        ),
        (
            "RuntimeError: Unsloth currently does not support multi GPU setups - but we are working on it!",
            "unsloth, source",
        ),
    ),
    "vllm-weight-sync": (
        (
            "[W715 09:24:02.297720466 TCPStore.cpp:330] [c10d] TCP client failed to connect/validate to host 0.0.0.0:51216 - timed out (try=1, timeout=300000ms): The client socket has timed out after 300000ms while trying to connect to (0.0.0.0, 51216).",
            "https://github.com/huggingface/trl/issues/3736",
        ),
        (
            "torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to connect to (127.0.0.1, 51216).",
            "https://github.com/huggingface/trl/issues/4538",
        ),
    ),
    "class-count-differs": (
        (
            "AssertionError: The `num_classes` (9) in FIRoIHead of MMDistributedDataParallel does not matches the length of `CLASSES` 80) in CocoDataset",
            "MMDetection 2, source",
        ),
    ),
    "chat-template-missing": (
        (
            "ValueError: Cannot use chat template functions because tokenizer.chat_template is not set and no template argument was passed!",
            "transformers 5.24, source",
        ),
        (
            "ValueError: Cannot use apply_chat_template because this processor does not have a chat template.",
            "transformers 5.24, source",
        ),
    ),
    "registered-twice": (
        (
            "KeyError: 'SampleFrames is already registered in pipeline'",
            "https://github.com/MCG-NJU/MGSampler/issues/3",
        ),
        (
            "AssertionError: An object named 'ResNet' was already registered in 'META_ARCH' registry!",
            "fvcore, unverified",
        ),
        (
            "ValueError: 'aimv2' is already used by a Transformers config, pick another name.",
            "transformers 5.24, source",
        ),
        (
            "AssertionError: Dataset 'my_dataset_train' is already registered!",
            "detectron2, source",
        ),
        (
            "AssertionError: Attribute 'thing_classes' in the metadata of 'my_dataset_train' cannot be set to a different value!",
            "detectron2, source",
        ),
    ),
    "vllm-server-lost": (
        (
            "requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('Remote end closed connection without response')) at trl/extras/vllm_client.py",
            "https://github.com/huggingface/trl/issues/3622",
        ),
        (
            "requests.exceptions.ReadTimeout: HTTPConnectionPool(host='0.0.0.0', port=8000): Read timed out. at trl/extras/vllm_client.py",
            "TRL, unverified",
        ),
        (
            "httpx.HTTPStatusError: Server error '503 Service Unavailable' for url 'http://26.104.43.34:3938/generate'",
            "https://github.com/THUDM/slime/issues/1391",
        ),
        (
            "requests.exceptions.HTTPError: 500 Server Error: Internal Server Error for url: http://10.0.0.1:15000/update_weights_from_distributed",
            "requests, unverified",
        ),
        (
            "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 10.0.0.1:30000 ssl:default [Connect call failed ('10.0.0.1', 30000)] (SGLang)",
            "aiohttp, unverified",
        ),
        (
            "[rank0]:   File \"/swift/trainers/rlhf_trainer/vllm_client.py\", line 179, in infer RuntimeError: Multiple errors: [Exception('Server 1 failed: 500, Internal Server Error')]",
            "https://github.com/modelscope/ms-swift/issues/7228",
        ),
    ),
    "tensorboard-hparams": (
        (
            "ValueError: value should be one of int, float, str, bool, or torch.Tensor",
            "https://github.com/hiyouga/EasyR1/issues/315",
        ),
    ),
    "vllm-architecture": (
        (
            "ValueError: Model architectures ['DbrxForCausalLM'] are not supported for now. Supported architectures: ['AquilaModel', 'AquilaForCausalLM']",
            "vLLM, source",
        ),
        (
            "ValueError: GraniteMoeHybridForCausalLM has no SGlang implementation and the Transformers implementation is not compatible with SGLang.",
            "https://github.com/sgl-project/sglang",
        ),
    ),
    "llamafactory-dataset": (
        (
            "ValueError: Undefined dataset mydata in dataset_info.json.",
            "LLaMA-Factory, source",
        ),
        (
            "ValueError: Cannot open data/dataset_info.json due to [Errno 2] No such file or directory: 'data/dataset_info.json'.",
            "LLaMA-Factory, source",
        ),
        (
            "RuntimeError: Cannot find valid samples, check `data/README.md` for the data format.",
            "LLaMA-Factory, source",
        ),
        (
            "RuntimeError: Cannot find sufficient samples, consider increasing dataset size.",
            "https://github.com/hiyouga/LlamaFactory/issues/5600",
        ),
        (
            "ValueError: The dataset is not applicable in the current training stage.",
            "LLaMA-Factory 0.9, source",
        ),
    ),
    "llamafactory-template": (
        ("ValueError: Template mllama does not exist.", "https://github.com/hiyouga/LLaMA-Factory/issues/6214"),
        (
            "ValueError: This model does not support image input. Please check whether the correct `template` is used.",
            "llamafactory 0.9, source",
        ),
        (
            "ValueError: Image processor was not found, please check and update your model file.",
            "llamafactory 0.9, source",
        ),
        (
            "ValueError: Audio feature extractor was not found, please check and update your model file.",
            "llamafactory 0.9, source",
        ),
    ),
    "options-conflict": (
        ("ValueError: DeepSpeed ZeRO-3 or FSDP is incompatible with PTQ-quantized models.", "llamafactory 0.9, source"),
        ("ValueError: FSDP2 is not compatible with DeepSpeed.", "ms-swift 4.6, source"),
        ("ValueError: QAT and PEFT cannot be used together.", "axolotl 0.19, source"),
        (
            "ValueError: When using sequence parallelism for actor/ref policy, you must enable `use_remove_padding`.",
            "verl 0.9, source",
        ),
    ),
    "rollout-weights-rejected": (
        (
            "(SGLangEngine pid=1493437) [2026-05-21 16:07:41 DP6 TP6] Failed to update parameter online: start out of range. The full weights of the ModelRunner are partially updated. Please discard the whole weights.",
            "sglang 0.5, source",
        ),
    ),
    "rollout-hangs": (
        (
            "(SGLangEngine pid=3111) [2025-12-18 08:24:01 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
            "sglang 0.5, source",
        ),
        (
            "(SGLangEngine pid=3111) [2025-12-18 08:24:01] Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 08:23:41. last_heartbeat time: 08:20:00",
            "sglang 0.5, source",
        ),
    ),
    "vllm-sleep-memory": (
        (
            "AssertionError: Expandable segments are not compatible with memory pool. Please track https://github.com/pytorch/pytorch/issues/147851 for the latest updates.",
            "vLLM, source",
        ),
        (
            "CUDA Error: invalid argument at cumem_allocator.cpp:119",
            "https://github.com/modelscope/ms-swift/issues/9144",
        ),
        (
            "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
            "https://github.com/TideDra/lmm-r1/issues/43",
        ),
    ),
    "vllm-parallel-sizes": (
        (
            "[rank3]:   File \"/vllm/vllm/distributed/parallel_state.py\", line 922, in initialize_model_parallel [rank3]: RuntimeError: shape '[1, 1, 1]' is invalid for input of size 4",
            "https://github.com/modelscope/ms-swift/issues/3522",
        ),
    ),
    "vllm-communicator": (
        (
            'File "/trl/extras/vllm_client.py", line 256, in init_communicator RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)',
            "TRL, unverified",
        ),
    ),
    "unsloth-cache": (
        (
            "AttributeError: module 'UnslothPPOTrainer' has no attribute 'UnslothPPOTrainer'",
            "https://github.com/unslothai/unsloth/issues/3031",
        ),
        (
            "RuntimeError: Direct module loading failed for UnslothSFTTrainer: expected an indented block",
            "unsloth_zoo 2026.10, source",
        ),
    ),
    "labels-all-ignored": (
        (
            "ZeroDivisionError: Unsloth: All labels in your dataset are -100. Training losses will be all 0.",
            "unsloth_zoo 2026.10, source",
        ),
        (
            "ValueError: The dataset has no samples left after dropping samples with no trainable tokens. Every sample had all of its labels masked to -100, so there is nothing to train on.",
            "axolotl 0.19, source",
        ),
    ),
    "server-weight-names": (
        (
            "ValueError: There is no module or parameter named '_orig_mod' in Qwen2ForCausalLM",
            "https://github.com/vllm-project/vllm/issues/12783",
        ),
        ("ValueError: Following weights were not initialized from checkpoint: {'score.weight'}", "vLLM, source"),
        (
            "  File \"/vllm/model_executor/models/qwen2.py\", line 391, in load_weights KeyError: 'layers.0.self_attn.qkv_proj.base_layer.weight'",
            "https://github.com/TIGER-AI-Lab/verl-tool/issues/125",
        ),
    ),
    "chat-template-refused": (
        (
            "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/assistant/...",
            "https://github.com/FasterDecoding/Medusa/issues/102",
        ),
    ),
    "text-not-string": (
        (
            "TypeError: TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]",
            "https://github.com/EricFillion/happy-transformer/issues/303",
        ),
        (
            "TypeError: TextInputSequence must be str",
            "tokenizers 0.23.3, source",
        ),
        (
            "ValueError: text input must be of type `str` (single example), `List[str]` (batch or single pretokenized example) or `List[List[str]]` (batch of pretokenized examples).",
            "transformers 4.46, source",
        ),
    ),
    "vllm-server-waits": (
        (
            "2025-04-17 12:30:10 - INFO - trl.extras.vllm_client - Server is not up yet. Retrying in 2.0 seconds...",
            "https://github.com/huggingface/open-r1/issues/568",
        ),
    ),
    "checkpoint-parts": (
        (
            "AssertionError: Loading a checkpoint for MP=1 but world size is 4",
            "https://github.com/meta-llama/llama/issues/551",
        ),
        (
            "AssertionError: Loading a checkpoint for MP=0 but world size is 1",
            "https://github.com/OpenGVLab/LLaMA-Adapter/issues/140",
        ),
    ),
    "lightning-local-rank": (
        (
            "RuntimeError: Lightning attempted to launch new distributed processes with `local_rank > 0`. This should not happen. Possible reasons: 1) LOCAL_RANK environment variable was incorrectly modified by the user, 2) `ClusterEnvironment.creates_processes_externally` incorrectly implemented.",
            "Lightning 2.6, source",
        ),
    ),
    "zero-stage-unsupported": (
        (
            "AssertionError: ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism",
            "DeepSpeed 0.19, source",
        ),
        (
            "AssertionError: MoE not supported with Stage 3",
            "DeepSpeed 0.19, source",
        ),
        (
            "ValueError: `auto_find_batch_size` isn't supported yet with DeepSpeed Zero-3. Please consider using Zero-2, Zero-1, or FSDP",
            "transformers 5.24, source",
        ),
    ),
    "parallel-groups-twice": (
        (
            "AssertionError: data parallel group is already initialized",
            "https://github.com/vllm-project/vllm/issues/549",
        ),
        (
            "AssertionError: ZeRO parameter intra parallel group is already initialized",
            "https://github.com/deepspeedai/DeepSpeed/issues/4901",
        ),
        (
            "AssertionError: args is already initialized",
            "https://github.com/NVIDIA-NeMo/Speech/issues/3064",
        ),
    ),
    "megatron-scheduler-differs": (
        (
            "AssertionError: OptimizerParamScheduler: class input value 0.0001 and checkpointvalue 0.00015 for learning rate do not match",
            "Megatron-Core 0.16, source",
        ),
    ),
    "trainer-part-missing": (
        (
            "pytorch_lightning.utilities.exceptions.MisconfigurationException: `train_dataloader` must be implemented to be used with the Lightning Trainer",
            "https://github.com/lavis-nlp/jerex/issues/14",
        ),
        (
            "lightning.fabric.utilities.exceptions.MisconfigurationException: No `training_step()` method defined. Lightning `Trainer` expects as minimum `training_step()`, `train_dataloader()` and `configure_optimizers()` to be defined.",
            "Lightning 2.6, source",
        ),
        (
            "ValueError: Trainer: training requires a train_dataset.",
            "transformers 5.24, source",
        ),
        (
            "ValueError: You have set `args.eval_strategy` to IntervalStrategy.EPOCH but you didn't pass an `eval_dataset` to `Trainer`. Either set `args.eval_strategy` to `no` or pass an `eval_dataset`. ",
            "transformers 5.24, source",
        ),
        (
            "ValueError: The model you have picked (BertModel) cannot be used as is for training: it only computes hidden states and does not accept any labels. You should choose a model with a head suitable for your task like any of the `AutoModelForXxx` listed at https://huggingface.co/docs/transformers/model_doc/auto",
            "transformers 5.24, source",
        ),
        (
            "ValueError: The train_dataset does not implement __len__, so the number of training steps cannot be inferred; max_steps has to be specified. The total number of steps must be known in advance for the learning rate scheduler.",
            "transformers 5.24, source",
        ),
        (
            "RuntimeError: Training with multiple optimizers is only supported with manual optimization. Set `self.automatic_optimization = False`, then access your optimizers in `training_step` with `opt1, opt2, ... = self.optimizers()`.",
            "Lightning 2.6, source",
        ),
        (
            "ValueError: args.max_steps must be set to a positive value if dataloader does not have a length, was -1",
            "transformers 5.24, source",
        ),
        (
            "lightning_fabric.utilities.exceptions.MisconfigurationException: `Trainer(devices=[])` value is not a valid input using cuda accelerator.",
            "https://github.com/acids-ircam/RAVE/issues/169",
        ),
    ),
    "cleanup-hides-error": (
        (
            "    if trainer.global_rank == 0:\nNameError: name 'trainer' is not defined",
            "https://github.com/danier97/LDMVFI/issues/16",
        ),
    ),
    "loss-printed-nan": (
        (
            "2023-09-21 16:01:33,275 - pcan - INFO - Epoch [1][600/617]\tlr: 2.398e-02, eta: 0:17:46, time: 0.140, data_time: 0.003, memory: 2301, loss_rpn_cls: nan, loss_bbox: nan, loss: nan",
            "https://github.com/SysCV/pcan/issues/33",
        ),
        (
            "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4.549912997495027e-06, 'epoch': 0.66}",
            "https://github.com/hiyouga/LlamaFactory/issues/5627",
        ),
        (
            " iteration     5426/  250000 | consumed samples:        43408 | learning rate: 2.999E-04 | global batch size:     8 | loss scale: 1.0 | grad norm: nan | number of skipped iterations:   0 | number of nan iterations:   0 |",
            "https://github.com/bigscience-workshop/Megatron-DeepSpeed/issues/396",
        ),
    ),
    "yapf-version": (
        (
            "TypeError: FormatCode() got an unexpected keyword argument 'verify'",
            "https://github.com/WoojuLee24/OA-DG/issues/3",
        ),
        (
            "SyntaxError: Failed to format the config file, please check the syntax of: ",
            "mmengine 0.10, source",
        ),
    ),
    "loss-names-differ": (
        (
            "AssertionError: loss log variables are different across GPUs!",
            "https://github.com/open-mmlab/mmdetection/issues/8687",
        ),
        (
            "ValueError: All dicts must have the same number of keys",
            "https://github.com/open-mmlab/mmdetection/issues/2303",
        ),
    ),
    "megatron-state-missing": (
        (
            "[2023-09-25 15:53:27,994] [INFO] [RANK 0] Unable to load optimizer from checkpoint ckpt/1000, exiting. Specify --no-load-rng or --finetune to prevent attempting to load the random state.",
            "https://github.com/THUDM/SwissArmyTransformer/issues/137",
        ),
    ),
    "gradient-norm-zero": (
        (
            "    assert all_groups_norm > 0.",
            "https://github.com/deepspeedai/DeepSpeed/issues/5223",
        ),
    ),
    "megatron-checkpoint-format": (
        (
            "megatron.core.dist_checkpointing.core.CheckpointingException: /ckpt/iter_0001000 is not a distributed checkpoint",
            "Megatron-Core 0.16, source",
        ),
    ),
    "detectron2-dataset-string": (
        (
            "KeyError: \"Dataset 'm' is not registered! Available datasets are: coco_2014_train, coco_2014_val\"",
            "https://github.com/facebookresearch/detectron2/issues/1946",
        ),
    ),
    "run-already-finished": (
        (
            "ValueError: The max_duration (10ba) is less than or equal to the elapsed training duration (10ba). No training would occur. Please provide the `duration` or specify `reset_time=True` in Trainer.fit().",
            "composer 0.32, source",
        ),
        (
            "lightning.fabric.utilities.exceptions.MisconfigurationException: You restored a checkpoint with current_epoch=11, but you have set Trainer(max_epochs=10).",
            "Lightning 2.6, source",
        ),
    ),
    "megatron-bucket-waits": (
        (
            "AssertionError: Communication call has not been issued for this bucket (12/14 params have grad available)",
            "Megatron-Core 0.16, source",
        ),
        (
            "AssertionError: Found 3 out of 7 parameters that are ready for reduce-scatter/all-reduce, but the pipeline is being reset.",
            "Megatron-Core 0.16, source",
        ),
        (
            "AssertionError: param.grad being None is not safe when overlap_grad_reduce is True",
            "megatron-core 0.16, source",
        ),
    ),
    "fsdp-one-rank": (
        ("NotImplementedError: offload_to_cpu=True and NO_SHARD is not supported yet", "torch 2.13, source"),
    ),
    "megatron-shard-missing": (
        (
            "megatron.core.dist_checkpointing.core.CheckpointingException: Object shard /ckpt/iter_0000100/optimizer.state/shard_0_1.pt not found",
            "megatron-core 0.16, source",
        ),
        (
            "megatron.core.dist_checkpointing.core.CheckpointingException: Unexpected keys (not found in the checkpoint) encountered in the provided sharded state dict. ",
            "megatron-core 0.16, source",
        ),
        (
            "megatron.core.dist_checkpointing.core.CheckpointingException: Missing shards after fully parallel loading: [('optimizer.state.exp_avg', 0)]",
            "megatron-core 0.16, source",
        ),
        (
            "ValueError: Cannot merge two lists with different lengths (1 and 2, encountered at level ('optimizer', 0, 'param_state', 0))",
            "megatron-core, merge of dist_checkpointing/dict_utils.py, source",
        ),
        (
            "ValueError: Different dict keys encountered in `apply_factory_merges` (dict_keys(['a']) vs dict_keys(['b']))",
            "megatron-core, dist_checkpointing/mapping.py, source",
        ),
        (
            "[rank3]: megatron.core.dist_checkpointing.core.CheckpointingException: Cannot find global shape metadata for N-D flattened tensor ShardedTensor(key='module.embedding.word_embeddings.weight', dtype=torch.bfloat16)",
            "https://github.com/NVIDIA-NeMo/Speech/issues/13913",
        ),
        (
            "[rank2]: KeyError: 'nd_reformulated_orig_global_shape'",
            "https://github.com/NVIDIA-NeMo/Speech/issues/13913",
        ),
        (
            "[rank0]: megatron.core.dist_checkpointing.core.CheckpointingException: Invalid access pattern: 36 ShardedObject are missing.",
            "https://github.com/NVIDIA-NeMo/RL/issues/1128",
        ),
        (
            "megatron.core.dist_checkpointing.core.CheckpointingException: Common file /ckpt/iter_0000100/common.pt does not exist",
            "megatron-core 0.16, source",
        ),
    ),
    "megatron-optimizer-format": (
        (
            "megatron.core.dist_checkpointing.core.CheckpointingException: ShardedTensor.flattened_range is not supported.",
            "megatron-core 0.16, source",
        ),
    ),
    "ultralytics-own-class": (
        (
            "ImportError: cannot import name 'CustomTrainer' from '__main__' (/root/.config/Ultralytics/DDP/_temp_ojxovo2s135142266514176.py)",
            "https://github.com/ultralytics/ultralytics/issues/8331",
        ),
    ),
    "deepspeed-hostname": (
        (
            "hostname: invalid option -- 'I'",
            "https://github.com/deepspeedai/DeepSpeed/issues/6497",
        ),
        (
            "hostname: illegal option -- I",
            "https://github.com/OptimalScale/LMFlow/issues/64",
        ),
        (
            "subprocess.CalledProcessError: Command '['hostname -I']' returned non-zero exit status 64.",
            "https://github.com/deepspeedai/DeepSpeed/issues/826",
        ),
        (
            "subprocess.CalledProcessError: Command '['hostname -I']' died with <Signals.SIGSEGV: 11>.",
            "https://github.com/deepspeedai/DeepSpeed/issues/2837",
        ),
    ),
    "converted-model-elsewhere": (
        (
            "FileNotFoundError: Pretrained run config not found at /root/.cache/huggingface/nemo_rl/model__fsx_models_qwen3-4b/iter_0000000/run_config.yaml on rank=8. This usually means that the one-time HF->mcore conversion on rank=0 saved to a directory not being mounted on this node. Please check",
            "https://github.com/NVIDIA-NeMo/RL/issues/1770",
        ),
    ),
    "sglang-load-unfinished": (
        (
            "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading. It is likely due to unexpected failures (e.g., OOM) or a slow node.",
            "https://github.com/sgl-project/sglang/issues/4503",
        ),
    ),
    "zero3-in-use": (
        (
            "AssertionError: {'id': 0, 'status': 'AVAILABLE', 'numel': 25755648, 'ds_numel': 25755648, 'shape': (50304, 512), 'ds_shape': (50304, 512), 'requires_grad': True, 'grad_shape': None, 'persist': False, 'active_sub_modules': {182}, 'ds_tensor.shape': torch.Size([3219456])}",
            "https://github.com/huggingface/trl/pull/1617",
        ),
        (
            "    assert not param.ds_active_sub_modules, param.ds_summary()",
            "https://github.com/dhcode-cpp/X-R1/issues/23",
        ),
    ),
    "lightning-scheduler-class": (
        (
            "pytorch_lightning.utilities.exceptions.MisconfigurationException: The provided lr scheduler `LambdaLR` doesn't follow PyTorch's LRScheduler API. You should override the `LightningModule.lr_scheduler_step` hook with your own logic if you are using a custom LR scheduler.",
            "https://github.com/CompVis/latent-diffusion/issues/319",
        ),
    ),
    "lightning-sampler-injection": (
        (
            "TypeError:  Lightning can't inject a (distributed) sampler into your batch sampler, because it doesn't subclass PyTorch's `BatchSampler`. To mitigate this, either follow the API of `BatchSampler` or set `Trainer(use_distributed_sampler=False)`.",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/19964",
        ),
        (
            "TypeError: Trying to inject a modified sampler into the batch sampler; however, it seems the class `Buckets` does not have an argument called `sampler.` To mitigate this, expose an argument `sampler` in the `__init__` method of your custom class.",
            "lightning 2.5, source",
        ),
        (
            "MisconfigurationException: Trying to inject custom `Sampler` into the `GraphLoader` instance. This would fail as some of the `__init__` arguments are not available as instance attributes.",
            "lightning 2.5, source",
        ),
    ),
    "lightning-step-none": (
        (
            "RuntimeError: Skipping the `training_step` by returning None in distributed training is not supported. It is recommended that you rewrite your training logic to avoid having to skip the step in the first place.",
            "lightning 2.5, source",
        ),
        (
            "MisconfigurationException: Skipping backward by returning `None` from your `training_step` is not supported by `DeepSpeed`",
            "lightning 2.5, source",
        ),
    ),
    "lightning-2-removed": (
        (
            "TypeError: Trainer.__init__() got an unexpected keyword argument 'gpus'",
            "lightning 2.5, source",
        ),
        (
            "NotImplementedError: Support for `validation_epoch_end` has been removed in v2.0.0. `LitModel` implements this method. You can use the `on_validation_epoch_end` hook instead.",
            "lightning 2.5, source",
        ),
        (
            "AttributeError: type object 'Trainer' has no attribute 'add_argparse_args'",
            "lightning 2.5, source",
        ),
        (
            "ValueError: You selected an invalid strategy name: `strategy='ddp_sharded'`. It must be either a string or an instance of `lightning.pytorch.strategies.Strategy`. Example choices: auto, ddp, ddp_spawn, deepspeed, ...",
            "lightning 2.5, source",
        ),
        (
            "ModuleNotFoundError: No module named 'pytorch_lightning.utilities.distributed'",
            "lightning 2.5, source",
        ),
    ),
    "deepspeed-not-active": (
        (
            "AttributeError: 'DummyOptim' object has no attribute 'step'",
            "https://github.com/modelscope/ms-swift/issues/1775",
        ),
        (
            "AttributeError: 'DummyScheduler' object has no attribute 'get_last_lr'",
            "https://github.com/LlamaChinese/Llama-Chinese/issues/163",
        ),
    ),
}
