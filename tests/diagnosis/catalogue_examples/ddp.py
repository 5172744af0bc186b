"""Printed texts of `ddpkit/diagnosis/catalogue/ddp.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "device-map-auto": (
        (
            "ValueError: You can't train a model that has been loaded with `device_map='auto'` in any distributed mode.",
            "https://github.com/huggingface/accelerate/issues/2682",
        ),
        (
            "ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision on a different device than the one you're training on. Make sure you loaded the model on the correct device using for example `device_map={'':torch.cuda.current_device()}` or `device_map={'':torch.xpu.current_device()}`",
            "accelerate 1.3.0, source",
        ),
        (
            "ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision on a different device than the one you're training on. Make sure you loaded the model on the correct device using for example `device_map={'':torch.cuda.current_device()}` or `device_map={'':torch.xpu.current_device()}`",
            "accelerate 1.3, source",
        ),
        (
            "ValueError: Your model contains `DTensor` parameters, which is incompatible with DDP. Maybe you loaded your model with `device_map='auto'`? Specify `device_map='cuda'` or 'cpu' instead.",
            "accelerate 1.15, source",
        ),
        (
            "ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision on multiple devices in any distributed mode. In order to use 8-bit or 4-bit models that have been loaded across multiple GPUs the solution is to use Naive Pipeline Parallelism.",
            "accelerate 1.15, source",
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
        (
            "Parameters which did not receive grad for rank 0: model.encoder.layers.22.final_layer_norm.bias, model.encoder.layers.22.final_layer_norm.weight, model.encoder",
            "https://github.com/speechbrain/speechbrain/issues/2340",
        ),
        (
            "AssertionError: This assert indicates that your module has parameters that were not used in producing loss.",
            "deepspeed 0.10.3, source",
        ),
        (
            "AssertionError: rank 3 - Invalid to reduce Param 12 with None gradient",
            "deepspeed 0.10.3, source",
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
            "RuntimeError: params[127] in this process with sizes [256, 256, 1, 1] appears not to match strides of the same param in process 0.",
            "https://github.com/sail-sg/FDM/issues/4",
        ),
        (
            'RuntimeError: replicas_[0].size() == rebuilt_param_indices_.size() INTERNAL ASSERT FAILED at "/pytorch/torch/csrc/distributed/c10d/reducer.cpp":1326, please report a bug to PyTorch. rebuilt parameter indices size is not same as original model parameters size.438 versus 70080',
            "https://github.com/chenhang98/BPR/issues/32",
        ),
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 3 has 2247 params, while rank 0 has inconsistent 2245 params.",
            "https://github.com/NJU-PCALab/STAR/issues/44",
        ),
        (
            "RuntimeError: [1]: params[0] in this process with sizes [100, 500] appears not to match sizes of the same param in process 0.",
            "torch 2.2, source",
        ),
        (
            'RuntimeError: bucket_count == per_bucket_sizes.size() INTERNAL ASSERT FAILED at "../torch/csrc/distributed/c10d/reducer.cpp":963, please report a bug to PyTorch',
            "https://github.com/pytorch/pytorch/issues/76043",
        ),
        (
            "RuntimeError: replicas[0][0] in this process with sizes [200, 128] appears not to match sizes of the same param in process 0.",
            "https://github.com/OpenDriveLab/UniAD/issues/189",
        ),
        (
            'RuntimeError: grad.numel() == bucket_view.numel() INTERNAL ASSERT FAILED at "/pytorch/torch/csrc/distributed/c10d/reducer.cpp":330, please report a bug to PyTorch.',
            "torch 2.13, source",
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
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Forward order differs across ranks: rank 0 is all-gathering 1 parameters while rank 1 is all-gathering 2 parameters",
            "torch 2.13, source",
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
        (
            "ValueError: Process group <torch.distributed.distributed_c10d.ProcessGroup object at 0x7f10> is not initialized in the world group map. Please initialize the group first.",
            "torch 2.13, source",
        ),
        (
            "ValueError: Invalid process group specified or has been destroyed.",
            "torch 2.13, source",
        ),
        (
            "ValueError: Group <torch.distributed.distributed_c10d.ProcessGroup object at 0x7f1c2c0b5b70> is not registered, please create group with torch.distributed.new_group API",
            "torch 2.13, source",
        ),
        (
            "    assert torch.distributed.deprecated._initialized",
            "https://github.com/facebookresearch/maskrcnn-benchmark/issues/540",
        ),
        (
            "AssertionError: Distributed backend is not initialized. Please set dist_init_required to True or initialize before calling deepspeed.initialize()",
            "DeepSpeed 0.16, source",
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
            "torchtitan, unverified",
        ),
        (
            "ValueError: tensor_parallel_size (2) must divide world size (3) evenly.",
            "TRL 1.13.0, source",
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
            "torch 2.13, run",
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
        (
            "AssertionError: NeoXArgs.calculate_derived() (global_num_gpus / pp_size) / mp_size [(4 / 4) / 2] must be a whole number",
            "https://github.com/EleutherAI/gpt-neox/issues/757",
        ),
        (
            "ValueError: You set `devices=8` and `num_nodes=2` in Lightning, but the product (8 * 2) does not match the world size (8).",
            "Lightning 2.6, source",
        ),
        (
            "RuntimeError: num_stages (3) must divide distributed world size (4)",
            "DeepSpeed 0.19, source",
        ),
        (
            "AssertionError: data_parallel_size (4) * tensor_model_parallel_size (3) must equal world_size (8)",
            "DeepSpeed 0.19, source",
        ),
        (
            "RuntimeError: The sizes `data_parallel_size=2` and `tensor_parallel_size=3` multiplied should equal the world size (8).",
            "Lightning 2.6, source",
        ),
        (
            "RuntimeError: [enforce fail at /__w/pytorch/pytorch/third_party/gloo/gloo/context.cc:23] rank < size. 4 vs 4",
            "torch 2.13, run",
        ),
        (
            "9306dc444753:248281:248306 [1] misc/argcheck.cc:39 NCCL WARN Recv : invalid root 0 (root should be in the 0..0 range)",
            "https://github.com/NVIDIA/nccl/issues/963",
        ),
        (
            "RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: mpiSize == tp * pp (/home/jenkins/agent/workspace/LLM/release-0.8/L0_PostMerge/tensorrt_llm/cpp/tensorrt_llm/runtime/worldConfig.cpp:90)",
            "https://github.com/Tlntin/Qwen-TensorRT-LLM/issues/123",
        ),
        (
            "ValueError: World size 8 is greater than the product of the specified parallelism degrees 4. Please ensure the product of the specified parallelism degrees matches the world size.",
            "composer 0.32, source",
        ),
        (
            "AssertionError: sequence_parallel_degree (4) must evenly divide world_size (6)",
            "axolotl 0.9, source",
        ),
        (
            "AssertionError: world_size 6 must be divisible by gpus_per_node 4",
            "verl 0.9, source",
        ),
    ),
    "mesh-dimension-unknown": (
        (
            "[rank0]: KeyError: \"Invalid mesh_dim_names ('dp_cp',) specified. Valid mesh_dim_names are ['tp'].\"",
            "https://github.com/pytorch/torchtitan/issues/1309",
        ),
        ("RuntimeError: Cannot slice a DeviceMesh without mesh_dim_names!", "torch 2.13, run"),
        (
            "KeyError: (\"Mesh dimension 'tp' does not exist.\", \"Available mesh dimensions are: mesh_dim_names=('dp',)\")",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): 2 and len(mesh_shape):1.",
            "torch 2.13, run",
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
        ("RuntimeError: Split sizes doesn't match total dim 0 size", "torch 2.13, run"),
        ("RuntimeError: Number of tensor splits not equal to group size", "torch 2.13, source"),
        ("RuntimeError: Tensor's dim 0 does not divide equally across group size", "torch 2.13, source"),
        (
            "RuntimeError: ProcessGroupGloo::allgather: invalid tensor size at index 1 (expected (4, 2), got (3, 2))",
            "torch 2.13, run",
        ),
        ("ValueError: invalid tensor size at index 1 (expected (4, 2), got (3, 2))", "torch 2.13, source"),
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
            "torch 2.13, source",
        ),
        (
            '  File "torch/distributed/distributed_c10d.py", line 2102, in _tensor_to_object\nMemoryError',
            "torch 2.13, source",
        ),
        (
            'Traceback (most recent call last):\n  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3421, in broadcast_object_list\n    object_tensor = torch.empty(\nRuntimeError: Trying to create tensor with negative dimension -7668064398132592638: [-7668064398132592638]',
            "https://github.com/Lightning-AI/pytorch-lightning/issues/20597",
        ),
        (
            "  File \"/opt/conda/lib/python3.10/site-packages/torch/distributed/distributed_c10d.py\", line 1970, in _tensor_to_object\nreturn _unpickler(io.BytesIO(buf)).load()\n_pickle.UnpicklingError: invalid load key, '\\x00'.",
            "https://github.com/pytorch/pytorch/issues/109675",
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
        (
            "AssertionError: FSDP expects uniform original parameter dtype but got {torch.bfloat16, torch.float32}",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Only Tensors of floating point and complex dtype can require gradients",
            "https://github.com/hiyouga/LlamaFactory/issues/3206",
        ),
        (
            "ValueError: Requires uniform dtype across all gradients but got {torch.float32, torch.bfloat16}",
            "torch, unverified",
        ),
        (
            "ValueError: `FlatParameter` requires uniform `requires_grad`",
            "https://github.com/huggingface/transformers/issues/27744",
        ),
        (
            "ValueError: Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`",
            "torch 2.13, source",
        ),
        (
            "AssertionError: FSDP expects uniform reduce dtype but got {torch.float32, torch.bfloat16}",
            "torch 2.13, source",
        ),
        (
            "AssertionError: FSDP reduce-scatter expects uniform gradient dtype but got {torch.bfloat16, torch.float32}",
            "https://github.com/pytorch/pytorch/issues/196996",
        ),
    ),
    "inplace-modified": (
        (
            "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [64]] is at version 3; expected version 2 instead.",
            "torch 2.2, source",
        ),
        (
            "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Output 0 of BackwardHookFunction is a view and is being modified inplace. This view was created inside a custom Function (or because an input was returned as-is)",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Output 0 of ViewBackward0 is a view and its base or another view of its base has been modified inplace. This view is the output of a function that returns multiple views. Such functions do not allow the output views to be modified inplace. You should replace the inplace operation by an out-of-place one.",
            "https://github.com/duxiaodan/intrinsic-lora/issues/1",
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
        (
            "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
            "torch 2.2, source",
        ),
        (
            "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cuda:1)",
            "torch 2.13, source",
        ),
        (
            "ValueError: Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)",
            "Triton 3.6.0, source",
        ),
        (
            "RuntimeError: Function ToCopyBackward0 returned an invalid gradient at index 0 - expected device cuda:1 but got cuda:0",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'. Please ensure that the gradient and the tensor are on the same device",
            "https://github.com/pytorch/pytorch/pull/135156",
        ),
        (
            "RuntimeError: Tensor for 'out' is on CPU, Tensor for argument #1 'self' is on CPU, but expected them to be on GPU (while checking arguments for addmm)",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Expected object of device type cuda but got device type cpu for argument #1 'self' in call to _th_index_select",
            "torch, unverified",
        ),
        (
            "RuntimeError: arguments are located on different GPUs at /pytorch/aten/src/THC/generic/THCTensorIndex.cu:400",
            "torch, source",
        ),
        (
            "RuntimeError: binary_op(): expected both inputs to be on same device, but input a is on cuda:1 and input b is on cuda:0",
            "torch, unverified",
        ),
        (
            "h:1:2 [0] misc/argcheck.cc:24 NCCL WARN AllReduce : sendbuff allocated on device 0 mismatchs with NCCL device 1",
            "NCCL, source",
        ),
        (
            "RuntimeError: expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: all tensors must be on devices[0]",
            "https://github.com/pytorch/pytorch/issues/5899",
        ),
    ),
    "shapes-differ": (
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 256x10)", "torch 2.13, run"),
        (
            "RuntimeError: a and b must have same reduction dim, but got [32, 63] X [64, 10].",
            "torch.compile of torch 2.11 on an H100, run",
        ),
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
        (
            "RuntimeError: The expanded size of the tensor (64) must match the existing size (96) at non-singleton dimension 1.  Target sizes: [96, 64].  Tensor sizes: [96]",
            "https://github.com/rxtan2/Learning-Similarity-Conditions/issues/12",
        ),
        (
            "RuntimeError: output with shape [1, 256] doesn't match the broadcast shape [8, 256]",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: shape '[2, 2048, 32, 128]' is invalid for input of size 8388608",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: shape mismatch: value tensor of shape [3] cannot be broadcast to indexing result of shape [4]",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Given groups=1, weight of size [64, 3, 7, 7], expected input[8, 1, 224, 224] to have 3 channels, but got 1 channels instead",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Function MulBackward0 returned an invalid gradient at index 0 - got [8, 5] but expected shape compatible with [8, 4]",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: running_mean should contain 256 elements not 128",
            "torch 2.13, run",
        ),
        (
            "IndexError: The shape of the mask [16] at index 0 does not match the shape of the indexed tensor [15] at index 0",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be greater than actual input size",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Expected 4-dimensional input for 4-dimensional weight [64, 3, 7, 7], but got 3-dimensional input of size [3, 224, 224] instead",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [1, 2, 3, 4, 5]",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: einsum(): subscript i has size 4 for operand 1 which does not broadcast with previously seen size 8",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: split_with_sizes expects split_sizes to sum exactly to 12 (input tensor's size at dimension -1), but got split_sizes=[4, 4]",
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
            "torch 2.13, run",
        ),
        (
            "RuntimeError: expected mat1 and mat2 to have the same dtype, but got: float != c10::BFloat16",
            "https://github.com/InternLM/xtuner/issues/772",
        ),
        (
            "RuntimeError: Input type (float) and bias type (c10::BFloat16) should be the same",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Found dtype Float but expected Half",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Index put requires the source and destination dtypes match, got Float for the destination and BFloat16 for the source.",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: attempting to assign a gradient with dtype 'c10::BFloat16' to a tensor with grad_dtype 'Float'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype).",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: long int and  query.dtype: c10::BFloat16 instead.",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Expected object of scalar type Half but got scalar type Float for argument #2 'mat2' in call to _th_mm",
            "torch, unverified",
        ),
        (
            "RuntimeError: Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.cuda.FloatTensor instead (while checking arguments for embedding)",
            "torch 2.13, source",
        ),
        ("RuntimeError: self and mat2 must have the same dtype, but got Half and Float", "torch 2.13, source"),
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
            "detectron2, unverified",
        ),
        (
            "AssertionError: Rank 1: found NaN in local forward loss calculation. Device: 1, node: node2",
            "Megatron-LM, unverified",
        ),
        (
            "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding. Try lowering the learning rate, using gradient clipping or increasing the batch size.",
            "fairseq 0.12, source",
        ),
        (
            "AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel communication collective. Device: 3, node: dgx07",
            "Megatron-LM, unverified",
        ),
        (
            "RuntimeError: Rank 3, node dgx07, device 3, iteration 100: Unexpected result nan (message='found NaN in local forward loss calculation')",
            "Megatron-LM, unverified",
        ),
        (
            "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
            "torch 2.13, run",
        ),
        (
            "ValueError: Expected parameter loc (Tensor of shape (2,)) of distribution Normal(loc: torch.Size([2]), scale: torch.Size([2])) to satisfy the constraint Real(), but found invalid values:",
            "torch 2.13, run",
        ),
        (
            "ValueError: Input contains NaN.",
            "scikit-learn 1.9, run",
        ),
        (
            "ValueError: matrix contains invalid numeric entries",
            "scipy 1.17, run",
        ),
        (
            "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
            "torch 2.13, run",
        ),
        (
            "ValueError: Expected parameter loc (Tensor of shape (2, 4)) of distribution Normal(loc: torch.Size([2, 4]), scale: torch.Size([2, 4])) to satisfy the constraint Real(), but found invalid values:",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped.",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: all elements of input should be between 0 and 1",
            "torch 2.13, run",
        ),
        (
            "FloatingPointError: gradients are Nan/Inf",
            "https://github.com/facebookresearch/fairseq/issues/4118",
        ),
        (
            "NaN detected in output of encoder.layers.0.self_attn, shape: torch.Size([32, 8, 512]), forward",
            "fairseq 0.12, source",
        ),
        (
            "[rank0]: ValueError: NaN values found in loss_gen_all",
            "a script of speech enhancement, documented",
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
            "megatron.core.dist_checkpointing.core.CheckpointingException: Global shape mismatch for loaded ((4096, 68)) and expected ((4096, 72)) tensor for key module.x_embedder.proj.1.weight",
            "https://github.com/NVIDIA/cosmos/issues/145",
        ),
        (
            'Exception: Error converting the state dict. Found unexpected key: "model.layers.0.self_attn.k_norm.weight". Please make sure you\'re loading a checkpoint with the right format.',
            "https://github.com/meta-pytorch/torchtune/issues/2772",
        ),
        (
            "AssertionError: Attempted to load weight (torch.Size([152064, 3584])) into parameter (torch.Size([151936, 3584]))",
            "vLLM, unverified",
        ),
        (
            "KeyError: 'h.69.input_layernorm.weight'",
            "https://github.com/huggingface/transformers-bloom-inference/issues/18",
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
        (
            "RuntimeError: storage has wrong byte size: expected %ld got %ld41024",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Invalid magic number; corrupt file?",
            "torch 2.13, run",
        ),
        (
            "OSError: Unable to load weights from pytorch checkpoint file for '/models/q/pytorch_model.bin' at '/models/q/pytorch_model.bin'. If you tried to load a PyTorch model from a TF 2.0 checkpoint, please set from_tf=True.",
            "transformers 4.46, unverified",
        ),
        (
            "RuntimeError: mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True), please torch.save your checkpoint with this option in order to use mmap.",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: mmap can only be used with files saved with `torch.save(/data/pytorch_model.bin, _use_new_zipfile_serialization=True), please torch.save your checkpoint with this option in order to use mmap.",
            "torch 2.13, source",
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
        (
            "AssertionError: dp_degree is inconsistent before and after checkpoint, dataloader resharding is not supported yet.",
            "torchtitan 0.3, source",
        ),
    ),
    "ddp-sizes-lost": (
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 364 params, while "
            "rank 0 has inconsistent 0 params.",
            "https://github.com/NJU-PCALab/STAR/issues/44",
        ),
        (
            "RuntimeError: DDP expects same model across all ranks, but Rank 5 has 128 params, while rank 0 has inconsistent 1506656875 params.",
            "https://github.com/huggingface/transformers/issues/30702",
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
            "ValueError: DistributedDataParallel's input module must be on the same type of devices, but input module parameters locate in {'cpu', 'cuda'}.",
            "torch 2.13, run",
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
        (
            "RuntimeError: replicas_[0].size() >= 1 ASSERT FAILED at /pytorch/torch/csrc/distributed/c10d/reducer.cpp:53, please report a bug to PyTorch. Expected at least one parameter. (Reducer at /pytorch/torch/csrc/distributed/c10d/reducer.cpp:53)",
            "https://github.com/XPixelGroup/RankSRGAN/issues/14",
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
            "AssertionError: {'id': 0, 'status': 'NOT_AVAILABLE', 'numel': 0, 'ds_numel': 0, 'shape': (0,), 'ds_shape': (0,), 'requires_grad': True, 'grad_shape': None, 'persist': True, 'active_sub_modules': {1}, 'ds_tensor.shape': torch.Size([0])}",
            "DeepSpeed 0.16.4, source",
        ),
        (
            "RuntimeError: Function ViewBackward0 returned an invalid gradient at index 0 - got [2360064] but expected shape compatible with [0]",
            "https://github.com/huggingface/accelerate/issues/1700",
        ),
        (
            "RuntimeError: assigned grad has data of a different size",
            "https://github.com/pytorch/pytorch/issues/93288",
        ),
        (
            "AssertionError: Expects storage to be allocated",
            "https://github.com/NCAR/miles-credit/issues/75",
        ),
        (
            "AssertionError: Expects tensor to be unsharded with size torch.Size([1024]) but got torch.Size([256])",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Cannot writeback when the parameter shape changes",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: weight should have at least three dimensions",
            "https://github.com/pytorch/tutorials/issues/2610",
        ),
        (
            "RuntimeError: mat2 must be a matrix, got 1-D tensor",
            "https://github.com/pytorch/tutorials/issues/2610",
        ),
        (
            "RuntimeError: The size of tensor a (0) must match the size of tensor b (4096) at non-singleton dimension 1",
            "https://github.com/hiyouga/LlamaFactory/issues/2081",
        ),
        (
            "assert param.ds_status == ZeroParamStatus.AVAILABLE, param.ds_summary()AssertionError",
            "https://github.com/QwenLM/Qwen-VL/issues/103",
        ),
        (
            "RuntimeError: size mismatch, got input (18944), mat (18944x8), vec (0)",
            "https://github.com/deepspeedai/DeepSpeed/issues/7436",
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
        (
            "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: trying to save more tensors during recomputation than during the original forward pass.",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: aten.mm.default encountered during backward but not found in storage.",
            "torch 2.13, source",
        ),
    ),
    "ddp-graph-changed": (
        (
            "RuntimeError: Your training graph has changed in this iteration, e.g., one parameter is used in first iteration, but then got unused in the second iteration. this is not compatible with static_graph set to True.",
            "torch 2.13, source",
        ),
        (
            'RuntimeError: expect_autograd_hooks_ INTERNAL ASSERT FAILED at "../torch/csrc/distributed/c10d/reducer.cpp":1504, please report a bug to PyTorch.',
            "https://github.com/pytorch/pytorch/issues/106953",
        ),
        (
            'RuntimeError: expect_autograd_hooks_ INTERNAL ASSERT FAILED at "/pytorch/torch/csrc/distributed/c10d/reducer.cpp":1633, please report a bug to PyTorch.',
            "https://github.com/OEvortex/unsloth/issues/14",
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
    "element-out-of-range": (
        (
            "IndexError: index 0 is out of bounds for dimension 0 with size 0",
            "torch 2.13, run",
        ),
    ),
    "dataset-empty": (
        (
            "ValueError: num_samples should be a positive integer value, but got num_samples=0",
            "torch 2.13, source",
        ),
        (
            "ValueError: class `EpochBasedTrainLoop` in mmengine/runner/loops.py: class `CocoDataset` in mmdet/datasets/coco.py: need at least one array to concatenate",
            "https://github.com/open-mmlab/mmdetection/issues/10668",
        ),
        (
            "AssertionError: No valid data found in my_train.",
            "detectron2, unverified",
        ),
        (
            "RuntimeError: Found 0 images in subfolders of /data/train. Supported image extensions are .png, .jpg, .jpeg",
            "timm, source",
        ),
        (
            "ValueError: train: No labels found in /data/labels.cache. See https://docs.ultralytics.com/datasets for dataset formatting guidance.",
            "ultralytics, source",
        ),
        ("FileNotFoundError: train: Error loading data from /data/coco/train2017.txt", "ultralytics 8.4, source"),
    ),
    "dtensor-mixed": (
        (
            "[rank1]: RuntimeError: aten.embedding.default: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed operators!",
            "https://github.com/pytorch/pytorch/issues/156535",
        ),
        (
            "RuntimeError: aten.mm.default: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed operators!",
            "https://github.com/ecmwf/WeatherGenerator/issues/1811",
        ),
        (
            "ValueError: All operands in aten.stack.default must have the same mesh, but got DeviceMesh('cuda', [1, 3], mesh_dim_names=('dp_shard_cp',)) and DeviceMesh('cuda', [[0, 1], [2, 3]], mesh_dim_names=('dp_shard_cp', 'tp')).",
            "https://github.com/pytorch/torchtitan/issues/1325",
        ),
        (
            "RuntimeError: DTensor does not support cross-mesh operation on aten.add.Tensor! Got meshes: DeviceMesh([0, 1]) DeviceMesh([0, 2]). Please make sure all the arguments have the same DeviceMesh.",
            "torch 2.13, source",
        ),
        (
            "NotImplementedError: Cross device mesh comm not supported yet!",
            "torch 2.13, source",
        ),
        (
            "ValueError: All operands in aten.stack.default must have the same mesh, but got (dp) and (ep)",
            "torch 2.13, source",
        ),
        (
            "[rank0]: NotImplementedError: aten._foreach_add_.List: DTensor does not support cross-mesh operation yet! Got meshes: DeviceMesh('cuda', [0]) DeviceMesh('cuda', [0, 1])",
            "torch 2.6, documented",
        ),
    ),
    "fsdp2-plain-tensor": (
        (
            "[rank2]: AttributeError: 'Tensor' object has no attribute 'device_mesh'",
            "accelerate 1.12, documented",
        ),
    ),
    "dtensor-operation-missing": (
        (
            "NotImplementedError: Operator aten.select.int does not have a sharding strategy registered.",
            "https://github.com/pytorch/pytorch/issues/147724",
        ),
        (
            "Sharding propagation failed for aten.view.default(Spec(f32[8, 4](S(0))), [3, 5]) on DeviceMesh((1,), 'cpu', stride=((),)))",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Cannot unflatten unevenly sharded tensor: output dimension 1 (size 3) is not evenly divisible by mesh dimension 0 (size 2). Please redistribute the tensor before this operation.",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: ('Attempted to flatten sharded dimension 1, ', 'but only the leftmost dim of a Flatten can be sharded.')",
            "torch 2.8, source",
        ),
        (
            "RuntimeError: This operation would remove or reshape sharded dimension 1, which requires redistribution. Please redistribute the input first.",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: aten.add_.Tensor: in-place operations that require placement changes are not supported. The input has placement (Shard(dim=0),), but no valid strategy preserves it",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: as_strided not supported with DTensor",
            "torch 2.13, source",
        ),
    ),
    "dcp-key-missing": (
        (
            "RuntimeError: Missing key in checkpoint state_dict: model.layers.0.weight.",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Missing key in checkpoint state_dict: optimizer.state.0.step.",
            "https://github.com/huggingface/accelerate/issues/3971",
        ),
        (
            "RuntimeError: Missing optimizer state for parameter 'layers.0.weight' in checkpoint. The parameter requires gradients but has no saved optimizer state. To load anyway, use StateDictOptions(strict=False).",
            "torch 2.13, source",
        ),
    ),
    "dcp-size-differs": (
        (
            "AssertionError: req MetadataIndex(fqn='model.embed_tokens.weight', offset=torch.Size([0, 0]), index=0) mismatch sizes torch.Size([1571]) vs torch.Size([1571, 3072])",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/20373",
        ),
        (
            "ValueError: Size mismatch between saved torch.Size([257152, 2048]) and current: torch.Size([131661824]) for model.embed_tokens.weight",
            "https://github.com/RLinf/RLinf/issues/655",
        ),
    ),
    "checkpoint-not-gathered": (
        (
            "size mismatch for transformer.layers.blocks.13.f.net.fn.fn.to_out.0.weight: copying a param with shape torch.Size([1]) from checkpoint, the shape in current model is torch.Size([1024, 512]).",
            "https://github.com/lucidrains/DALLE-pytorch/issues/211",
        ),
        (
            "size mismatch for embeddings.word_embeddings.weight: copying a param with shape torch.Size([0]) from checkpoint, the shape in current model is torch.Size([50265, 768]).",
            "https://github.com/huggingface/sentence-transformers/pull/1215",
        ),
        (
            "AssertionError: Attempted to load weight (torch.Size([0])) into parameter (torch.Size([1280, 3, 2, 14, 14]))",
            "https://github.com/StarsfieldAI/R1-V/issues/132",
        ),
        (
            "/usr/lib/python3/dist-packages/vllm/model_executor/layers/linear.py:956, in QKVParallelLinear.weight_loader\nRuntimeError: start (0) + length (512) exceeds dimension size (0).",
            "https://github.com/OpenRLHF/OpenRLHF/issues/871",
        ),
    ),
    "shard-empty": (
        (
            "size mismatch for weight: copying a param with shape torch.Size([0, 17]) from checkpoint, the shape in current model is torch.Size([1, 17]).",
            "https://github.com/pytorch/pytorch/issues/136228",
        ),
        (
            "size mismatch for weight: copying a param with shape torch.Size([1, 17]) from checkpoint, the shape in current model is torch.Size([0, 17]).",
            "torch 2.13, run",
        ),
    ),
    "scaler-without-gradients": (
        (
            "AssertionError: No inf checks were recorded for this optimizer.",
            "https://github.com/huggingface/accelerate/issues/328",
        ),
        (
            "AssertionError: No inf checks were recorded for this optimizer.",
            "https://github.com/SheldonTsui/GOF_NeurIPS2021/issues/2",
        ),
    ),
    "scaler-order": (
        (
            "RuntimeError: unscale_() has already been called on this optimizer since the last update().",
            "https://github.com/pengxiao-song/LaWGPT/issues/124",
        ),
        (
            "RuntimeError: unscale_() is being called after step().",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: step() has already been called since the last update().",
            "torch 2.13, run",
        ),
    ),
    "scaler-with-bf16": (
        (
            "NotImplementedError: \"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'",
            "https://github.com/huggingface/trl/issues/4901",
        ),
    ),
    "fp16-constant": (
        (
            "RuntimeError: value cannot be converted to type at::Half without overflow: -1e+08",
            "https://github.com/facebookresearch/fairseq/issues/3575",
        ),
    ),
    "meta-tensor": (
        (
            "NotImplementedError: Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module from meta to a different device.",
            "https://github.com/pytorch/pytorch/issues/164554",
        ),
        (
            "RuntimeError: FSDP parameters should be materialized from meta device before training, but the following were still on meta device: ['layers.0.weight']",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Tensor on device meta is not on the expected device cuda:0!",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Tensor.item() cannot be called on meta tensors",
            "torch 2.13, run",
        ),
        ("ValueError: weight is on the meta device, we need a `value` to put in on 0.", "accelerate, source"),
    ),
    "fsdp-device": (
        (
            "ValueError: The module has CPU parameters when `sync_module_states=True` is specified. Please specify `device_id` or move the module to GPU so that FSDP can broadcast the parameters: sync_module_states=True requires GPU.",
            "https://github.com/huggingface/transformers/issues/25100",
        ),
        (
            "ValueError: The module has CPU parameters or buffers when `sync_module_states=True`, which requires them to be on GPU. Please specify the `device_id` argument or move the module to GPU before passing it to FSDP.",
            "torch 2.13, source",
        ),
        (
            'RuntimeError: FSDP parameters should be materialized on CPU when enabling CPU offloading. For example, load a CPU state dict or call module.to_empty(device="cpu").',
            "https://github.com/huggingface/accelerate/pull/3910",
        ),
        (
            "ValueError: Inconsistent compute device and `device_id` on rank 1: cuda:0 vs cuda:1",
            "torch 2.13, source",
        ),
        (
            "AssertionError: Expects the parameter to already be moved to device cuda:0 but got cpu",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: An FSDP-managed module unexpectedly has parameters on cpu. Make sure to move the module to cuda:1 before training.",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: An FSDP-managed module with parameter CPU offloading enabled has parameters on cuda:0. Make sure to not move the module from CPU when offloading parameters.",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: FSDP only supports single device modules but got params on {device(type='cuda', index=0), device(type='cuda', index=1)}",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: To support a module with both CPU and GPU params, please pass in device_id argument.",
            "torch 2.13, source",
        ),
        (
            "ValueError: Must flatten tensors on the same device but got both cuda:0 and meta",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: FSDP does not support modules with different device types but got params on cuda and cpu",
            "torch 2.13, source",
        ),
        (
            "AssertionError: Expects tensor to be on the compute device cuda:0, was on cpu",
            "https://github.com/pytorch/pytorch/issues/90541",
        ),
        (
            "AssertionError: Expects the `FlatParameter` to be on CPU when parameter CPU offloading is enabled, not cuda:0",
            "torch 2.13, source",
        ),
        (
            "AssertionError: Expected `FlatParameter` to be on the compute device cuda:1 but got cpu",
            "torch 2.13, source",
        ),
    ),
    "fsdp-root": (
        (
            "AssertionError: Non-root FSDP instance's `_is_root` should not have been set yet or should have been set to `False`",
            "https://github.com/huggingface/trl/issues/1704",
        ),
        (
            "RuntimeError: FSDP state has already been lazily initialized for layers.0",
            "torch 2.13, source",
        ),
        (
            "FSDP requires running forward through the root module first",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: `clip_grad_norm_()` should only be called on the root FSDP instance",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: `no_sync()` on inner FSDP instances is not supported. Please call `no_sync()` on root FSDP module.",
            "torch 2.13, source",
        ),
        (
            "ValueError: FSDP auto wrapping requires modules to not already have FSDP applied but found layers.0 in",
            "torch 2.13, source",
        ),
        (
            "AssertionError: Each distinct composable distributed API can only be applied to a module once. fully_shard has already been applied to the following module:",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Cannot apply `replicate()` on a Module already managed by `fully_shard`",
            "torch 2.13, source",
        ),
    ),
    "fsdp-layer-class": (
        (
            "Exception: Could not find the transformer layer class to wrap in the model.",
            "https://github.com/huggingface/accelerate/issues/1943",
        ),
        (
            "Exception: Could not find a transformer layer class called 'LlamaDecoderLayer' to wrap in the model.",
            "accelerate 1.15, source",
        ),
    ),
    "ddp-compile": (
        (
            "NotImplementedError: DDPOptimizer backend: Found a higher order op in the graph. This is not supported.",
            "https://github.com/huggingface/nanoVLM/issues/61",
        ),
        (
            "  Explanation: Dynamo does not know how to trace method `set_runtime_stats_and_log` of class `Logger`",
            "https://github.com/huggingface/accelerate/pull/4017",
        ),
        (
            "torch._dynamo.exc.BackendCompilerFailed: compile_fn raised TypeError: _convert_frame_assert() missing 1 required positional argument: 'hooks'",
            "https://github.com/huggingface/distil-whisper/issues/71",
        ),
    ),
    "optimizer-state-device": (
        (
            "AssertionError: If capturable=False, state_steps should not be CUDA tensors.",
            "https://github.com/open-mmlab/mmagic/issues/1988",
        ),
        (
            "RuntimeError: params, grads, exp_avgs, and exp_avg_sqs must have same dtype, device, and layout",
            "torch 2.14.1, source",
        ),
        (
            "RuntimeError: `fused=True` requires all the params to be floating point Tensors of supported devices: ['mps', 'cuda', 'xpu', 'hpu', 'cpu', 'mtia', 'privateuseone'] but torch.float32 and meta",
            "torch 2.13, run",
        ),
    ),
    "checkpoint-device": (
        (
            "RuntimeError: Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1. Please use torch.load with map_location to map your storages to an existing device.",
            "https://github.com/Juyong/CaricatureFace/issues/2",
        ),
        (
            "RuntimeError: Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 1. Please use torch.load with map_location to map your storages to an existing device.",
            "torch 2.13, source",
        ),
    ),
    "checkpoint-without-optimizer": (
        (
            "    optimizer.load_state_dict(checkpoint['optimizer'])\nKeyError: 'optimizer'",
            "https://github.com/maudzung/SFA3D/issues/48",
        ),
    ),
    "optimizer-group-differs": (
        (
            "[rank0]: KeyError: 'bias_correction'",
            "DeepSpeed 0.16 and ms-swift, documented",
        ),
        (
            "KeyError: 'capturable'",
            "torch 1.12, unverified",
        ),
    ),
    "generator-device": (
        (
            "RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'",
            "https://github.com/ziangcao0312/DiffTF/issues/3",
        ),
        (
            "RuntimeError: Expected a 'cuda:0' generator device but found 'cpu'",
            "https://github.com/pytorch/pytorch/issues/61457",
        ),
    ),
    "loss-not-scalar": (
        (
            "RuntimeError: grad can be implicitly created only for scalar outputs",
            "torch 2.13, run",
        ),
    ),
    "inference-tensor": (
        (
            "RuntimeError: Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal tensor and use it in autograd.",
            "https://github.com/huggingface/trl/issues/2983",
        ),
        (
            "RuntimeError: Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor before doing inplace update.",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Cannot set version_counter for inference tensor",
            "torch 2.13, source",
        ),
    ),
    "loss-scale-falls": (
        (
            "[loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 16, reducing to 8\n[loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4, reducing to 2",
            "https://github.com/ymcui/Chinese-LLaMA-Alpaca/issues/534",
        ),
    ),
    "cudagraph-capture": (
        (
            "RuntimeError: CUDA error: operation not permitted when stream is capturing",
            "CUDA 13.0, source",
        ),
        (
            "RuntimeError: CUDA error: operation failed due to a previous error during capture",
            "CUDA 11 runtime, source",
        ),
        (
            "Exception: Capture cuda graph failed: CUDA error: capturing stream has unjoined work",
            "https://github.com/deepseek-ai/DeepEP/issues/62",
        ),
    ),
    "scheduler-too-long": (
        (
            "ValueError: Tried to step 1002 times. The specified number of total steps is 1000",
            "torch 2.13, run",
        ),
    ),
    "scheduler-resume": (
        (
            "KeyError: \"param 'initial_lr' is not specified in param_groups[0] when resuming scheduler with last_epoch >= 0.\\nThis typically happens when:\\n1. You're trying to resume training from a checkpoint but haven't properly loaded the optimizer state\\n2. You're using last_epoch >= 0 for a fresh training run (not recommended)\"",
            "torch 2.13, run",
        ),
    ),
    "sampler-and-shuffle": (
        (
            "ValueError: sampler option is mutually exclusive with shuffle",
            "torch 2.13, run",
        ),
        (
            "ValueError: DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle=True",
            "torch 2.13, run",
        ),
    ),
    "sample-is-none": (
        (
            "TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'NoneType'>",
            "torch 2.13, run",
        ),
        (
            "TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'NoneType'>",
            "torch 2.13, run",
        ),
    ),
    "optimizer-step-sizes": (
        (
            "RuntimeError: Tensors of the same index must be on the same device and the same dtype except `step` tensors that can be CPU and float32/64 notwithstanding",
            "https://github.com/huggingface/transformers/pull/34645",
        ),
    ),
    "fsdp-not-sharded": (
        (
            "RuntimeError: ``local_state_dict`` can only be used when parameters are flatten and sharded.",
            "https://github.com/facebookresearch/dinov2/issues/273",
        ),
        (
            "AssertionError: Expects sharded strategy",
            "https://github.com/rllm-org/rllm/issues/53",
        ),
    ),
    "fsdp-scalar": (
        (
            "ValueError: FSDP doesn't support scalar parameters. Change logit_scale to a 1D tensor with numel equal to 1.",
            "torch 2.13, source",
        ),
        (
            "ValueError: fully_shard doesn't support scalar parameters. Change alpha to a 1D tensor with numel equal to 1.",
            "torch 2.13, source",
        ),
    ),
    "fsdp-mesh-missing": (
        (
            "ValueError: Manual wrapping with ShardingStrategy.HYBRID_SHARD requires explicit specification of process group or device_mesh.",
            "torch 2.13, source",
        ),
        (
            "ValueError: fully_shard expects a 1D or 2D DeviceMesh but got DeviceMesh((pp=2, dp=2, tp=2), 'cuda')",
            "torch 2.13, source",
        ),
        (
            "AssertionError: Please init the 2D mesh for HSDP with mesh_dim_names specified",
            "torch 2.13, source",
        ),
        (
            "ValueError: Expected device_mesh to have ndim=2 but got 1",
            "torch 2.13, source",
        ),
    ),
    "pipeline-layout": (
        (
            "ValueError: Expecting 4 arg_mbs but got 2",
            "torch 2.13, source",
        ),
        (
            "torch.distributed.pipelining._utils.PipeliningMetadataError: Stage args must be a tensor, tuple, or list of tensors, got dict.",
            "torch 2.13, source",
        ),
        (
            "torch.distributed.pipelining._utils.PipeliningShapeError: forward output value 0 has a shape mismatch: expected torch.Size([2, 4]) actual torch.Size([1, 4])",
            "torch 2.6, source",
        ),
        (
            "ValueError: num_stages 6 must be evenly divisible by pp_size 4 for V schedules",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Pipeline group size 4 cannot be larger than number of stages 2",
            "torch 2.13, source",
        ),
        (
            "ValueError: Interleaved 1F1B requires the number of microbatches to be a multiple of the number of rounds (2), but got 3.",
            "torch 2.13, source",
        ),
        (
            "AssertionError: Tensor size 3 is smaller than num_chunks",
            "torch 2.13, source",
        ),
        (
            "ValueError: Number of microbatches (4) must be greater than or equal to the number of stages (8).",
            "torch 2.13, source",
        ),
        (
            "ValueError: Zero bubble requires the number of microbatches to be a multiple of the number of rounds (4), but got 6.",
            "torch 2.13, source",
        ),
        (
            "ValueError: DualPipeV requires at least as many microbatches as stages, but got 4 microbatches and 8 stages.",
            "torch 2.13, source",
        ),
        (
            "        Failed to run stage backward:\n        Stage output: ('Tensor(torch.Size([10]), grad=True)',)",
            "https://github.com/pytorch/PiPPy/issues/1054",
        ),
        (
            '[rank0]: File "/home/project/lib/python3.10/site-packages/torch/distributed/pipelining/_backward.py", line 52, in extract_tensors_with_grads\n[rank0]:     assert len(output_val) == len(grad_val)\n[rank0]: AssertionError',
            "https://github.com/pytorch/pytorch/issues/129732",
        ),
    ),
    "pipeline-not-traced": (
        (
            "RuntimeError: It seems that we cannot capture your model as a full graph. Typical reasons include graph breaks, data/shape-dependent control flow, or missing meta kernels for custom operators. You can use our manual pipeline interfaces, or try to fix the graph breaks",
            "torch 2.13, source",
        ),
    ),
    "collective-unsupported": (
        (
            "TypeError: Input tensor data type is not supported for NCCL process group: Short",
            "torch 2.6, source",
        ),
        (
            "RuntimeError: Backend nccl does not support allreduce_coalesced",
            "torch 2.13, source",
        ),
        (
            "ValueError: all_reduce does not support ReduceOp.MAX on complex tensors",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: ProcessGroupGloo::send: unsupported device type cuda",
            "torch 2.13, source",
        ),
        (
            "ValueError: monitored_barrier is only implemented for GLOO backend.",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Cannot use ReduceOp.PREMUL_SUM with Gloo",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Unconvertible NCCL type BFloat16",
            "https://github.com/NVIDIA/nccl/issues/677",
        ),
        (
            "RuntimeError: Invalid scalar type",
            "https://github.com/NVIDIA-NeMo/Speech/issues/5485",
        ),
        (
            "ValueError: Cannot use ReduceOp.BAND with NCCL",
            "torch 2.7, source",
        ),
        (
            "ValueError: Cannot use AVG with boolean inputs",
            "torch 2.7, source",
        ),
    ),
    "collective-arguments": (
        (
            "ValueError: Argument ``gather_list`` must be specified on destination rank.",
            "torch 2.13, source",
        ),
        (
            "ValueError: Argument ``scatter_list`` must NOT be specified on non-source ranks.",
            "torch 2.13, source",
        ),
        (
            "ValueError: Invalid destination rank: destination rank should not be the same as the rank of the current process.",
            "torch 2.13, source",
        ),
        (
            "ValueError: Invalid usage of tensors with different dtypesFound torch.float32 and  torch.float16",
            "torch 2.13, source",
        ),
        (
            "ValueError: Tensors must be contiguous",
            "torch 2.13, source",
        ),
        (
            "TypeError: Expected timeout argument to be of type datetime.timedelta, got 1800",
            "torch 2.13, source",
        ),
        (
            "ValueError: Expected argument scatter_object_output_list to be a list of size at least 1.",
            "torch 2.13, source",
        ),
        (
            "TypeError: Invalid function argument. Expected parameter `tensor` of type torch.Tensor",
            "torch 2.13, source",
        ),
        (
            "ValueError: Invalid source rank: rank should not be the same as the rank of the current process.",
            "torch 2.13, source",
        ),
        (
            "ValueError: Tensor list must be nonempty",
            "torch 2.7, source",
        ),
        (
            "AssertionError: Must provide object_gather_list on dst rank",
            "torch 2.13, source",
        ),
        (
            "ValueError: source rank must provide non-None scatter_object_input_list",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Tensors must be contiguous",
            "https://github.com/deepspeedai/DeepSpeed/issues/2736",
        ),
    ),
    "dcp-async-backend": (
        (
            "AssertionError: A CPU backend must be enabled for async save; try initializing process group with 'cpu:gloo,cuda:nccl'",
            "torch 2.13, source",
        ),
    ),
    "rpc-timeout": (
        (
            "RuntimeError: RPCErr:1:RPC ran for more than set timeout (60000 ms) and will now be marked with an error",
            "torch 2.13, documented",
        ),
        (
            "RuntimeError: Followers ['worker1'] timed out in _all_gather after 60.00 seconds. The first exception is RPCErr:1",
            "torch 2.13, source",
        ),
    ),
    "optimizer-values-differ": (
        (
            "AssertionError: Rank 1 has different values for step: 8016.0. Other ranks: 7870.0",
            "https://github.com/pytorch/pytorch/pull/113765",
        ),
    ),
    "tensor-to-numpy": (
        (
            "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
            "https://github.com/ygjwd12345/TransDepth/issues/5",
        ),
        (
            "RuntimeError: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
            "torch 2.13, run",
        ),
    ),
    "tensor-to-scalar": (
        (
            "ValueError: only one element tensors can be converted to Python scalars",
            "https://github.com/cyclomon/UNSB/issues/6",
        ),
        (
            "RuntimeError: a Tensor with 2 elements cannot be converted to Scalar",
            "torch 2.13, run",
        ),
    ),
    "backend-unknown": (
        (
            "[rank0]: AssertionError: Unknown c10d backend type CUDA:NCCL",
            "https://github.com/pytorch/pytorch/issues/159200",
        ),
        (
            "ValueError: Unknown backend 'foo'. Specify a 'device:backend' string or use one of: ['gloo', 'mpi']",
            "torch 2.13, source",
        ),
    ),
    "dtensor-not-taken": (
        (
            "AssertionError: found no DeviceMesh from dtensor args for c10d.broadcast_.default!",
            "https://github.com/pytorch/pytorch/issues/150401",
        ),
        (
            "ValueError: Cannot find device mesh from args for op : aten.mm.default.",
            "torch 2.13, source",
        ),
    ),
    "optimizer-not-gathered": (
        (
            "RuntimeError: Optimizer state has not been consolidated on this rank.                 Please call `consolidate_state_dict()` on all ranks beforehand if you meant to save the global state",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/10745",
        ),
    ),
    "fsdp-container": (
        (
            "ValueError: fully_shard does not support containers that do not implement forward: ModuleList(",
            "https://github.com/pytorch/pytorch/issues/167856",
        ),
    ),
    "mesh-not-sliced": (
        (
            "RuntimeError: ('Found the DeviceMesh have 2 dimensions', 'Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.', 'If you want to get the list of all the ProcessGroups in the DeviceMesh,please use `get_all_groups()` instead.')",
            "https://github.com/allenai/OLMo-core/issues/168",
        ),
        (
            "RuntimeError: ('Found the DeviceMesh have 2 dimensions', 'Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.', 'please use `get_all_groups()` instead.')",
            "https://github.com/allenai/OLMo-core/issues/168",
        ),
    ),
    "fsdp-optimizer-state": (
        (
            "RuntimeError: The state of _OptimStateKey(unflat_param_names=('visual.blocks.0.norm1.weight', 'visual.blocks.0.norm2.weight'), is_fsdp_managed=True) is empty. This should happen when use_orig_params=True.",
            "https://github.com/hiyouga/EasyR1/issues/275",
        ),
        (
            'ValueError: `optim_state_dict` must have the keys "state"to be a valid optimizer state dict',
            "torch 2.13, source",
        ),
        (
            "│ venv/lib/python3.11/site-packages/torch/distributed/fsdp/_optim_utils.py:461 │\n│  in _flatten_optim_state_dict                                                │\nKeyError: 'state'",
            "https://github.com/mosaicml/llm-foundry/issues/1231",
        ),
    ),
    "dcp-plan-invalid": (
        (
            "ValueError: Failed to validate global plan",
            "https://github.com/pytorch/pytorch/pull/176728",
        ),
        (
            "AssertionError: Key(s) present in other ranks but not this one, difference: {'optimizer.state.1.step'}",
            "torch 2.13, source",
        ),
    ),
    "dcp-async-writer": (
        (
            "RuntimeError: Checkpoint background process is dead. Exit code: -9",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Timed out after 0:30:00 while waiting for response from checkpointer process pid: 4242",
            "torch 2.13, source",
        ),
    ),
    "ddp-bucket-view": (
        (
            "RuntimeError: Detected at least one parameter gradient is not the expected DDP bucket view with gradient_as_bucket_view=True. This may happen (for example) if multiple allreduce hooks were registered onto the same parameter.",
            "https://github.com/meta-pytorch/torchrec/issues/1118",
        ),
    ),
    "dcp-key-error": (
        (
            "  File \"/usr/lib/python3/dist-packages/torch/distributed/checkpoint/default_planner.py\", line 235, in create_default_local_load_plan\n    md = metadata.state_dict_metadata[fqn]\nKeyError: 'pos_embedding'",
            "https://github.com/pytorch/pytorch/issues/85949",
        ),
    ),
    "fsdp-full-precision": (
        (
            "AssertionError: Expects full precision but got torch.float32",
            "https://github.com/mosaicml/composer/pull/1925",
        ),
    ),
    "symmetric-memory-same-gpu": (
        (
            "RuntimeError: CUDASymmetricMemoryAllocator::rendezvous: detected allocations from overlapping devices from different ranks.",
            "https://github.com/yifuwang/symm-mem-recipes/issues/5",
        ),
    ),
    "symmetric-memory-nodes": (
        (
            "RuntimeError: failed to send fd: No such file or directory",
            "https://github.com/pytorch/pytorch/issues/171495",
        ),
        (
            "RuntimeError: CUDASymmetricMemory::rendezvous: ranks have mismatched NVLink clique_ids. All ranks using fabric handles must be in the same NVLink domain. Per-rank info: rank 0 (host: n1, device: 0, clique_id: 1)",
            "https://github.com/pytorch/pytorch/pull/178989",
        ),
        (
            "RuntimeError: CUDA driver error: invalid resource handle. Rank 0 (host: n1, device: 0, fabric_info: {}) failed to import memory from rank 3 (host: n2, device: 1, NCCL_MNNVL_CLIQUE_ID: unset).",
            "https://github.com/pytorch/pytorch/pull/178989",
        ),
    ),
    "symmetric-memory-driver": (
        (
            "    return _SymmetricMemory.rendezvous(tensor, group_name)\nRuntimeError: CUDA driver error: invalid argument",
            "https://github.com/vllm-project/vllm/issues/25937",
        ),
        (
            "    return _SymmetricMemory.rendezvous(tensor, group_name)\nFailed to window register segment with ptr 0x7f00, size 20971520 on rank 0",
            "https://github.com/pytorch/pytorch/issues/188567",
        ),
    ),
    "replica-without-parameters": (
        (
            "StopIteration: Caught StopIteration in replica 0 on device 0.",
            "https://github.com/espnet/espnet/issues/4224",
        ),
    ),
    "sync-batchnorm-alone": (
        (
            '  File "/x/torch/nn/modules/batchnorm.py", line 519, in forward\nRuntimeError: Default process group has not been initialized, please make sure to call init_process_group.',
            "https://github.com/facebookresearch/detectron2/issues/3972",
        ),
        (
            "AttributeError: SyncBatchNorm is only supported within torch.nn.parallel.DistributedDataParallel",
            "https://github.com/CoinCheung/BiSeNet/issues/70",
        ),
    ),
    "sampler-ranks": (
        (
            "ValueError: Invalid rank 0, rank should be in the interval [0, -1]",
            "https://github.com/pytorch/pytorch/issues/196090",
        ),
        (
            "ValueError: Invalid rank 8, rank should be in the interval [0, 7]",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/17436",
        ),
        (
            "ValueError: Invalid rank 3, rank should be in the interval [0, 1]",
            "torch 2.13, source",
        ),
    ),
    "tensor-without-storage": (
        (
            "RuntimeError: Attempted to access the data pointer on an invalid python storage.",
            "https://github.com/huggingface/transformers/issues/27578",
        ),
    ),
    "fsdp-view-modified": (
        (
            "FSDP ViewBackward0 RuntimeError\nRuntimeError: Output 0 of ViewBackward0 is a view and its base or another view of its base has been modified inplace. This view is the output of a function that returns multiple views. Such functions do not allow the output views to be modified inplace. You should replace the inplace operation by an out-of-place one.",
            "https://github.com/huggingface/accelerate/issues/1700",
        ),
    ),
    "data-parallel-gather": (
        (
            "RuntimeError: Gather got an input of invalid size: got [1, 230], but expected [1, 231]",
            "https://github.com/pytorch/pytorch/issues/44141",
        ),
        (
            "RuntimeError: Input tensor at index 3 has invalid shape [14, 14], but expected [14, 17]",
            "https://github.com/voidism/DiffCSE/issues/6",
        ),
        (
            "ValueError: gather got an input of invalid size: got 10x110x29, but expected 10x226x29",
            "https://github.com/SeanNaren/deepspeech.pytorch/issues/325",
        ),
    ),
    "data-parallel-cpu": (
        (
            "AssertionError: Gather function not implemented for CPU tensors",
            "https://github.com/amdegroot/ssd.pytorch/issues/570",
        ),
    ),
    "model-not-wrapped": (
        (
            "AttributeError: 'PanopticDeepLab' object has no attribute 'module'",
            "https://github.com/bowenc0221/panoptic-deeplab/issues/7",
        ),
        (
            "torch.nn.modules.module.ModuleAttributeError: 'FastSpeech2' object has no attribute 'module'",
            "https://github.com/ming024/FastSpeech2/issues/124",
        ),
        (
            "AttributeError: 'SiT' object has no attribute 'module'. Did you mean: 'modules'?",
            "https://github.com/vvvvvjdy/SRA/issues/1",
        ),
    ),
    "groups-of-gpus": (
        (
            "ValueError: The arg 'group_size' (8) must not exceed the world size (2)",
            "https://github.com/instructlab/training/issues/678",
        ),
        (
            "ValueError: The world size (6) must be divisible by 'group_size=8'",
            "torch 2.13, source",
        ),
    ),
    "device-id-index": (
        (
            "ValueError: init_process_group device_id parameter must be an accelerator with an index",
            "https://github.com/pytorch/pytorch/pull/190432",
        ),
        (
            "ValueError: Please use a device_id with index.",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: No device associated with the default pg, not safe to split any process groups",
            "torch 2.13, source",
        ),
    ),
    "uneven-inputs": (
        (
            "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks.",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: Rank 3 exhausted all inputs.",
            "torch 2.13, source",
        ),
    ),
}
