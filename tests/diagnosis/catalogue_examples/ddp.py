"""Printed texts of `ddpkit/diagnosis/catalogue/ddp.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "device-map-auto": (
        (
            "ValueError: You can't train a model that has been loaded with `device_map='auto'` in any distributed mode.",
            "https://github.com/huggingface/accelerate/issues/2682",
        ),
    ),
    "ddp-unused-parameters": (
        (
            "Parameter indices which did not receive grad for rank 2: 362 363 364",
            "torch 2.13, source",
        ),
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
    "ddp-marked-twice": (
        (
            "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module parameter outside the `forward` function.",
            "https://github.com/huggingface/accelerate/issues/3536",
        ),
        (
            "Parameter at index 440 with name backbone.fc2.bias has been marked as ready twice.",
            "https://github.com/microsoft/FocalNet/issues/4",
        ),
    ),
    "ddp-model-differs": (
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 3 has 2247 params, while rank 0 has inconsistent 2245 params.",
            "https://github.com/NJU-PCALab/STAR/issues/44",
        ),
        (
            "RuntimeError: [1]: params[0] in this process with sizes [100, 500] appears not to match sizes of the same param in process 0.",
            "torch 2.2, source",
        ),
    ),
    "collectives-mismatch": (
        (
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running inconsistent collective: CollectiveFingerPrint(OpType=ALLGATHER, TensorShape=[41, 256, 8, 8, 8], TensorDtypes=Float",
            "https://github.com/xljh0520/JOTR/issues/4",
        ),
        (
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running collective: CollectiveFingerPrint(SequenceNumber=152517, OpType=BROADCAST, TensorShape=[1]",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/19045",
        ),
        (
            "Mismatched allreduce tensor shapes: One rank sent a tensor of shape [3], but another rank "
            "sent a tensor of shape [4].",
            "Horovod 0.28, source",
        ),
        (
            "Mismatched MPI operations: One rank did an allreduce, but another rank did an allgather.",
            "Horovod 0.28, source",
        ),
        (
            "Mismatched data types: One rank had type float32, but another rank had type float64.",
            "Horovod 0.28, source",
        ),
        (
            "Mismatched root ranks: One rank specified root rank 0, but another rank specified root rank 1.",
            "Horovod 0.28, source",
        ),
        (
            "accelerate.utils.operations.DistributedOperationException: Cannot apply desired operation "
            "due to shape mismatches. All shapes across devices must be valid.",
            "accelerate 0.26, source",
        ),
        (
            "accelerate.utils.operations.DistributedOperationException: Impossible to apply the desired "
            "operation due to inadequate shapes.",
            "accelerate 0.20, source",
        ),
        (
            "    'Unable to unpickle data from other workers. all_gather_list requires all '",
            "https://github.com/facebookresearch/fairseq/issues/1821",
        ),
        (
            "RuntimeError: Forward order differs across ranks: rank 0 is all-gathering 1 parameters while rank 1 is all-gathering 0 parameters",
            "torch 2.6, source",
        ),
    ),
    "no-process-group": (
        (
            "ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
            "torch 2.13, run",
        ),
        (
            "AssertionError: Default process group is not initialized",
            "torch 1.5, source",
        ),
        (
            "AssertionError: DeepSpeed backend not set, please initialize it using init_process_group()",
            "DeepSpeed 0.14, source",
        ),
    ),
    "process-group-twice": (("ValueError: trying to initialize the default process group twice!", "torch 2.13, run"),),
    "no-backend-for-device": (
        ("RuntimeError: No backend type associated with device type cpu", "torch 2.2, source"),
        ("RuntimeError: Tensors must be CUDA and dense", "torch 2.2, source"),
    ),
    "invalid-group-rank": (
        ("ValueError: Global rank 3 is not part of group <torch.distributed.ProcessGroup>", "torch 2.6, source"),
        ("AssertionError: world size (8) is not divisible by total_model_size (3)", "Megatron-LM, source"),
        (
            "AssertionError: Invalid parallel dims: dp_replicate(1) * dp_shard(8) * cp(1) * tp(1) * pp(1) != WORLD_SIZE(4)",
            "torchtitan 0.1, source",
        ),
        (
            "ValueError: vllm_tensor_parallel_size (2) must divide world size (3) evenly.",
            "TRL 0.19, source",
        ),
        (
            "RuntimeError: Mesh should not be bigger than default world size, but found 9 ranks!",
            "https://github.com/pytorch/pytorch/issues/111452",
        ),
        (
            "RuntimeError: The new group's rank should be within the the world_size set by init_process_group",
            "https://github.com/hpcaitech/ColossalAI/issues/2910",
        ),
        (
            "RuntimeError: the new group's world size should be less or equal to the world size set by init_process_group",
            "https://github.com/hpcaitech/ColossalAI/issues/3857",
        ),
        (
            "ValueError: Rank 5 is out of range. Valid ranks are 0 to 3 (world_size=4)",
            "torch 2.13, source",
        ),
        (
            "ValueError: the split group's size should be less or equal to the world_size set by init_process_group",
            "torch 2.13, source",
        ),
        (
            "AssertionError: Invalid parallel dims: dp(1) * sp(2) * pp(3) != WORLD_SIZE8",
            "https://github.com/pytorch/torchtitan/pull/27",
        ),
        (
            "[rank1]: RuntimeError: world_size (8) is not equal to tensor_model_parallel_size (4) x pipeline_model_parallel_size (1)",
            "https://github.com/modelscope/ms-swift/issues/3739",
        ),
        (
            "RuntimeError: DeviceMesh only support homogeneous hardware, but found 6 ranks and 4 cuda devices!",
            "torch 2.13, source",
        ),
    ),
    "mesh-dimension-unknown": (
        (
            "[rank0]: KeyError: \"Invalid mesh_dim_names ('dp_cp',) specified. Valid mesh_dim_names are ['tp'].\"",
            "https://github.com/pytorch/torchtitan/issues/1309",
        ),
        ("RuntimeError: Cannot slice a DeviceMesh without mesh_dim_names!", "torch 2.13, source"),
        (
            "ValueError: Mesh dimension 'tp' does not exist. Available mesh dimensions are: mesh_dim_names=('dp',)",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: ('mesh_shape and mesh_dim_names should have same length! ', 'Found len(mesh_dim_names): 2 and len(mesh_shape):1.')",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: ('Found the DeviceMesh have 2 dimensions', 'Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.', 'please use `get_all_groups()` instead.')",
            "https://github.com/allenai/OLMo-core/issues/168",
        ),
        (
            "ValueError: Mesh 'tp' is not available. Ensure the corresponding parallelism dimension is enabled (size > 1).",
            "https://github.com/pytorch/torchtitan/issues/2184",
        ),
        (
            "KeyError: \"Invalid mesh_dim_names ('dp_cp',) specified. Valid mesh_dim_names are ['tp'].\"",
            "https://github.com/pytorch/torchtitan/issues/1309",
        ),
    ),
    "dtensor-mixed": (
        (
            "[rank1]: RuntimeError: aten.embedding.default: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed operators!",
            "https://github.com/pytorch/pytorch/issues/156535",
        ),
    ),
    "collective-sizes": (
        (
            "[rank5]: ValueError: output tensor size must be equal to world_size times input tensor size",
            "https://github.com/hiyouga/LlamaFactory/issues/9194",
        ),
        (
            "RuntimeError: All tensor operands to scatter/gather must have the same size",
            "https://github.com/hszhao/semseg/issues/58",
        ),
        (
            "ValueError: input tensor must be the same size as output size times world size",
            "https://github.com/intel/torch-xpu-ops/issues/2738",
        ),
        (
            "RuntimeError: Tensor list input to scatter/gather must match number of collective participants but got 2 inputs with world_size 4 and 1 devices.",
            "https://github.com/pytorch/pytorch/pull/107281",
        ),
        ("RuntimeError: Split sizes doesn't match total dim 0 size", "torch 2.13, source"),
        ("RuntimeError: Number of tensor splits not equal to group size", "torch 2.13, source"),
        ("RuntimeError: Tensor's dim 0 does not divide equally across group size", "torch 2.13, source"),
        (
            "RuntimeError: ProcessGroupGloo::allgather: invalid tensor size at index 1 (expected (4, 2), got (3, 2))",
            "torch 2.13, source",
        ),
        ("ValueError: invalid tensor size at index 1 (expected (4, 2), got (3, 2))", "torch 2.1, source"),
    ),
    "object-collective-device": (
        (
            '  File "torch/distributed/distributed_c10d.py", line 1667, in all_gather_object\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.',
            "https://github.com/pytorch/pytorch/issues/75619",
        ),
    ),
    "object-collective-broken": (
        (
            '  File "torch/distributed/distributed_c10d.py", line 3364, in _tensor_to_object\nEOFError: Ran out of input',
            "https://github.com/pytorch/torchtitan/issues/3051",
        ),
        (
            "  File \"torch/distributed/distributed_c10d.py\", line 2102, in _tensor_to_object\n_pickle.UnpicklingError: invalid load key, '\\x00'.",
            "torch 2.1, source",
        ),
        (
            '  File "torch/distributed/distributed_c10d.py", line 2102, in _tensor_to_object\nMemoryError',
            "torch 2.1, source",
        ),
    ),
    "fsdp-mixed-dtypes": (
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
        (
            "ValueError: Integer parameters are unsupported",
            "https://github.com/artidoro/qlora/issues/198",
        ),
    ),
    "inplace-modified": (
        (
            "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [64]] is at version 3; expected version 2 instead.",
            "torch 2.2, source",
        ),
    ),
    "backward-twice": (
        (
            "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed).",
            "torch 2.13, source",
        ),
    ),
    "no-grad": (
        (
            "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
            "torch 2.13, source",
        ),
    ),
    "devices-differ": (
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
        (
            "RuntimeError: Tensor on device cpu is not on the expected device meta!",
            "torch 2.13, run",
        ),
    ),
    "shapes-differ": (
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 256x10)", "torch 2.13, run"),
        (
            "RuntimeError: The size of tensor a (64) must match the size of tensor b (32) at non-singleton dimension 0",
            "torch 2.13, run",
        ),
        ("ValueError: Expected input batch_size (8) to match target batch_size (4).", "torch 2.13, run"),
        (
            "RuntimeError: Sizes of tensors must match except in dimension 0. Expected size 4 but got "
            "size 5 for tensor number 1 in the list.",
            "torch 2.13, run",
        ),
    ),
    "dtypes-differ": (
        (
            "RuntimeError: mat1 and mat2 must have the same dtype, but got BFloat16 and Float",
            "torch 2.13, run",
        ),
        ("RuntimeError: expected scalar type Half but found Float", "torch 2.2, source"),
        (
            "RuntimeError: expected m1 and m2 to have the same dtype, but got: float != c10::BFloat16",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Found dtype Float but expected BFloat16",
            "torch 2.6, source",
        ),
    ),
    "loss-is-nan": (
        ("Loss is nan, stopping training", "MAE, source"),
        ("RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.", "torch 2.13, run"),
        (
            "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
            "DeepSpeed, source",
        ),
        (
            "FloatingPointError: Loss became infinite or NaN at iteration=27!",
            "https://github.com/facebookresearch/detectron2/issues/425",
        ),
        (
            "Loss is inf, stopping training",
            "https://github.com/Intellindust-AI-Lab/DEIMv2/issues/94",
        ),
        (
            "FloatingPointError: Loss became infinite or NaN at iteration=1!",
            "detectron2 0.6, source",
        ),
        (
            "AssertionError: Rank 1: found NaN in local forward loss calculation. Device: 1, node: node2",
            "Megatron-LM 0.5, source",
        ),
        (
            "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding. Try lowering the learning rate, using gradient clipping or increasing the batch size.",
            "fairseq 0.12, source",
        ),
        (
            "AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel communication collective. Device: 3, node: dgx07",
            "Megatron-LM core 0.9, source",
        ),
        (
            "RuntimeError: Rank 3, node dgx07, device 3, iteration 100: Unexpected result nan (message='found NaN in local forward loss calculation')",
            "Megatron-LM core 0.9, source",
        ),
        (
            "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
            "torch 2.1, source",
        ),
        (
            "ValueError: Expected parameter loc (Tensor of shape (2,)) of distribution Normal(loc: torch.Size([2])) to satisfy the constraint Real(), but found invalid values:",
            "torch 2.1, source",
        ),
        (
            "ValueError: Input contains NaN.",
            "scikit-learn 1.3, source",
        ),
        (
            "ValueError: matrix contains invalid numeric entries",
            "scipy 1.10, source",
        ),
    ),
    "zero3-not-gathered": (
        (
            "\tsize mismatch for layers.3.bias: copying a param with shape torch.Size([4096]) from checkpoint, the shape "
            "in current model is torch.Size([0]).",
            "https://github.com/THUDM/GLM/issues/60",
        ),
        (
            'ValueError: Trying to set a tensor of shape torch.Size([32000, 4096]) in "weight" (which has shape torch.Size([0])), this look incorrect.',
            "https://github.com/axolotl-ai-cloud/axolotl/issues/1240",
        ),
    ),
    "checkpoint-mismatch": (
        (
            "\tsize mismatch for head.weight: copying a param with shape torch.Size([10, 8]) from checkpoint, the shape in "
            "current model is torch.Size([12, 8]).",
            "torch 2.13, source",
        ),
        ("RuntimeError: Error(s) in loading state_dict for Linear:", "torch 2.13, run"),
        (
            "RuntimeError: Missing key in checkpoint state_dict: model.layers.0.weight.",
            "torch 2.6, source",
        ),
    ),
    "checkpoint-unsafe": (
        (
            "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two options",
            "torch 2.13, run",
        ),
    ),
    "checkpoint-broken": (
        (
            "RuntimeError: PytorchStreamReader failed finding central directory: invalid header or archive is corrupted",
            "torch 2.13, source",
        ),
        ("EOFError: Ran out of input", "Python 3.11, run"),
        (
            "RuntimeError: unexpected EOF, expected 20000 more bytes. The file might be corrupted.",
            "torch 2.13, run",
        ),
        (
            'safetensors_rust.SafetensorError: Error while deserializing header: InvalidOffset("lm_head.weight")',
            "safetensors 0.4, source",
        ),
        (
            "_pickle.UnpicklingError: invalid load key, '\\x00'.",
            "Python 3.11, run",
        ),
        (
            "RuntimeError: storage has wrong size: expected 0 got 512",
            "https://github.com/facebookresearch/XLM/issues/184",
        ),
    ),
    "checkpoint-world-size": (
        (
            "deepspeed.runtime.zero.utils.ZeRORuntimeException: The checkpoint being loaded used a DP "
            "world size of 256 but the current world size is 2. Automatic adjustment of ZeRO's optimizer "
            "state partitioning with a new world size is not currently supported.",
            "https://github.com/THUDM/GLM/issues/136",
        ),
        (
            "AssertionError: tensor_model_parallel_size value from checkpoint (8) is not equal to the "
            "input argument value (4).",
            "Megatron-LM, source",
        ),
        (
            "RuntimeError: the checkpoint was saved with world_size 8",
            "accelerate 0.26, documented",
        ),
    ),
    "ddp-sizes-lost": (
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 364 params, while "
            "rank 0 has inconsistent 0 params.",
            "https://github.com/NJU-PCALab/STAR/issues/44",
        ),
    ),
    "checkpoint-empty": (
        (
            '  File "/x/site-packages/torch/serialization.py", line 1886, in _legacy_load\nEOFError',
            "torch 2.6, run",
        ),
    ),
    "test-failed": (
        (
            "FAILED test_loss.py::test_loss - assert 6 == 9",
            "pytest 8, run",
        ),
    ),
    "checkpoint-without-prefix": (
        (
            'RuntimeError: Error(s) in loading state_dict for DataParallel:\n\tMissing key(s) in state_dict: "module.conv.weight". \n\tUnexpected key(s) in state_dict: "conv.weight". ',
            "torch 2.1, source",
        ),
    ),
    "checkpoint-with-prefix": (
        (
            'RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "conv.weight", "conv.bias". \n\tUnexpected key(s) in state_dict: "module.conv.weight", "module.conv.bias". ',
            "torch 2.1, source",
        ),
    ),
    "weights-are-text": (
        (
            "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
            "safetensors 0.4, source",
        ),
        (
            "_pickle.UnpicklingError: invalid load key, 'v'.",
            "Python 3.11, run",
        ),
        (
            "safetensors_rust.SafetensorError: Error while deserializing header: invalid UTF-8 in header: invalid utf-8 sequence",
            "safetensors 0.6, source",
        ),
        (
            "WeightsUnpickler error: Unsupported operand 118",
            "torch 2.6, source",
        ),
    ),
    "weights-cut-off": (
        (
            "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
            "safetensors 0.4, source",
        ),
        (
            "safetensors_rust.SafetensorError: Error while deserializing header: invalid header length",
            "safetensors 0.6, source",
        ),
    ),
    "loss-scale-floor": (
        (
            "[deepscale] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1",
            "https://github.com/huggingface/transformers/issues/14531",
        ),
        (
            "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 4.76837158203125e-07",
            "apex 0.1, source",
        ),
    ),
    "optimizer-state-differs": (
        (
            "ValueError: loaded state dict has a different number of parameter groups",
            "torch 2.13, run",
        ),
        (
            "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Missing key in checkpoint state_dict: optimizer.state.0.step.",
            "https://github.com/huggingface/accelerate/issues/3971",
        ),
    ),
    "ddp-model-device": (
        (
            "ValueError: DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules or CPU modules, but got device_ids [0], output_device 0, and module parameters {device(type='cpu')}.",
            "torch 2.13, source",
        ),
        (
            "ValueError: SyncBatchNorm expected input tensor to be on GPU",
            "torch 2.13, source",
        ),
        (
            "ValueError: The module has CPU parameters when `sync_module_states=True` is specified. Please specify `device_id` or move the module to GPU so that FSDP can broadcast the parameters: sync_module_states=True requires GPU.",
            "https://github.com/huggingface/transformers/issues/25100",
        ),
    ),
    "nothing-to-train": (
        (
            "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient.",
            "torch 2.13, source",
        ),
        (
            "ValueError: optimizer got an empty parameter list",
            "torch 2.13, source",
        ),
    ),
    "wrapped-attribute": (
        (
            "AttributeError: 'DistributedDataParallel' object has no attribute 'generate'",
            "torch 2.13, source",
        ),
    ),
    "sharded-parameter-used": (
        (
            "RuntimeError: 'weight' must be 2-D",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: The tensor has a non-zero number of elements, but its data is not allocated yet.",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: setStorage: sizes [4096, 4096], strides [1, 4096], storage offset 0, and itemsize 2 requiring a storage size of 33554432 are out of bounds for storage of size 0",
            "torch 2.13, source",
        ),
        (
            "AssertionError: {'id': 0, 'status': 'NOT_AVAILABLE', 'numel': 0, 'ds_numel': 0, 'shape': (0,), 'ds_shape': (0,), 'requires_grad': True}",
            "DeepSpeed 0.16, source",
        ),
    ),
    "checkpoint-recompute-differs": (
        (
            "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass.",
            "torch 2.13, source",
        ),
        (
            "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.",
            "torch 2.13, source",
        ),
    ),
    "ddp-graph-changed": (
        (
            "RuntimeError: Your training graph has changed in this iteration, e.g., one parameter is used in first iteration, but then got unused in the second iteration. this is not compatible with static_graph set to True.",
            "torch 2.13, source",
        ),
    ),
    "batch-of-one": (
        (
            "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 512, 1, 1])",
            "torch 2.13, source",
        ),
    ),
    "fp16-parameters": (
        (
            "ValueError: Attempting to unscale FP16 gradients.",
            "torch 2.13, source",
        ),
    ),
    "dtype-not-implemented": (
        (
            "RuntimeError: \"LayerNormKernelImpl\" not implemented for 'Half'",
            "torch 2.0, source",
        ),
    ),
    "index-out-of-range": (
        (
            "IndexError: index out of range in self",
            "torch 2.13, source",
        ),
        (
            "IndexError: Target 10 is out of bounds.",
            "torch 2.13, source",
        ),
    ),
    "dataset-empty": (
        (
            "ValueError: num_samples should be a positive integer value, but got num_samples=0",
            "torch 2.13, source",
        ),
    ),
    "no-gradients-to-unscale": (
        (
            "AssertionError: No inf checks were recorded for this optimizer.",
            "https://github.com/huggingface/accelerate/issues/328",
        ),
        (
            "RuntimeError: unscale_() has already been called on this optimizer since the last update().",
            "torch 2.1, source",
        ),
    ),
}
