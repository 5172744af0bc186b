"""Printed texts of `ddpkit/diagnosis/catalogue/inputs.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "model-files-missing": (
        (
            "OSError: Error no file named pytorch_model.bin, tf_model.h5, model.ckpt.index or flax_model.msgpack found in directory /data/models/stable-diffusion-2-base.",
            "https://github.com/cswry/SeeSR/issues/8",
        ),
        (
            "OSError: Can't load tokenizer for './saved model'. If you were trying to load it from 'https://huggingface.co/models', make sure you don't have a local directory with the same name.",
            "https://github.com/FreedomIntelligence/GrammarGPT/issues/3",
        ),
        (
            "OSError: /data/llama does not appear to have a file named config.json. Checkout 'https://huggingface.co//data/llama/tree/main' for available files.",
            "transformers 4.40, source",
        ),
        (
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/data/models/llama-7b'. Use `repo_type` argument if needed.",
            "huggingface_hub 0.34, source",
        ),
        (
            "OSError: Incorrect path_or_model_id: '/data/llama2'. Please provide either the path to a local folder or the repo_id of a model on the Hub.",
            "transformers 4.40, source",
        ),
        (
            "ValueError: Unrecognized model in /data/model. Should have a `model_type` key in its config.json, or contain one of the following strings in its name: albert, align",
            "transformers 4.49.0, source",
        ),
        (
            "ValueError: Can't find 'adapter_config.json' at './out'",
            "peft 0.14, source",
        ),
        (
            "OSError: Error no file named pytorch_model.bin, model.safetensors, tf_model.h5, model.ckpt.index or flax_model.msgpack found in directory /models/llama.",
            "transformers 4.49, source",
        ),
        (
            "OSError: /models/llama does not appear to have a file named config.json. Checkout 'https://huggingface.co//models/llama/tree/None' for available files.",
            "transformers 4.49.0, source",
        ),
        (
            "ValueError: Can't find 'adapter_config.json' at '/out/checkpoint-100'",
            "peft 0.14, source",
        ),
    ),
    "resume-checkpoint-missing": (
        (
            "FileNotFoundError: Checkpoint file not found: /data/ckpt/last.ckpt",
            "Lightning 2.6.6, source",
        ),
        (
            "ValueError: Can't find a valid checkpoint at ./checkpoints/Video-LLaVA-Pretrain-7B/checkpoint-1500",
            "https://github.com/PKU-YuanGroup/Video-LLaVA/issues/42",
        ),
        (
            "ValueError: No valid checkpoint found in output directory (./out)",
            "transformers 4.49, source",
        ),
        (
            "FileNotFoundError: Checkpoint file /data/ckpt/last.ckpt not found. Aborting training.",
            "Lightning, unverified",
        ),
        (
            "ValueError: Invalid for universal checkpoint: /data/ckpt/latest_universal does not exist",
            "DeepSpeed 0.16, source",
        ),
        (
            "FileNotFoundError: work_dirs/epoch_12.pth can not be found.",
            "mmengine, unverified",
        ),
        (
            "ValueError: Can't find a valid checkpoint at /out/checkpoint-400",
            "https://github.com/huggingface/open-r1/issues/553",
        ),
        (
            "ValueError: [deepspeed] failed to resume from checkpoint /input1/lumos/checkpoint-5439",
            "https://github.com/Haochen-Wang409/ross/issues/13",
        ),
        (
            "ValueError: No valid checkpoint found in output directory (out)",
            "transformers 4.49, source",
        ),
        (
            "    assert len(self.ckpt_list) > 0",
            "https://github.com/huggingface/finetrainers/issues/29",
        ),
        (
            "KeyError: 'Trying to restore training state but checkpoint contains only the model. This is probably due to `ModelCheckpoint.save_weights_only` being set to `True`.'",
            "https://github.com/bytedance/music_source_separation/issues/20",
        ),
        (
            "ValueError: Tried to find out/checkpoint-10 but folder does not exist",
            "accelerate 1.15, source",
        ),
        (
            "FileNotFoundError: Failed to load model from '/storage/run/step_2/policy/weights/model': Model path /storage/run/step_2/policy/weights/model does not exist",
            "https://github.com/NVIDIA-NeMo/RL/issues/1624",
        ),
        (
            "ValueError: The path PosixPath('/scratch/last.ckpt') does not point to a valid checkpoint. Make sure the path points to either a directory with FSDP checkpoint shards, or a single file with a full checkpoint.",
            "lightning 2.5, source",
        ),
        (
            "megatron.core.dist_checkpointing.core.CheckpointingException: Checkpoint directory /checkpoints/iter_0000100 does not exist",
            "megatron-core 0.16, source",
        ),
    ),
    "checkpoint-directory-race": (
        (
            "FileNotFoundError: [Errno 2] No such file or directory: './out/tmp-checkpoint-500' -> './out/checkpoint-500'",
            "https://github.com/huggingface/transformers/issues/27925",
        ),
        (
            "OSError: [Errno 39] Directory not empty: '/root/results/tmp-checkpoint-s0yubqtr' -> '/root/results/checkpoint-50'",
            "https://github.com/FanqingM/MM-Eureka-V0/issues/8",
        ),
        (
            "FileExistsError: [Errno 17] File exists: './out/checkpoint-500'",
            "Python 3.11, run",
        ),
    ),
    "tokenizer-newer": (
        (
            "Exception: data did not match any variant of untagged enum PyPreTokenizerTypeWrapper at line 40 column 3",
            "https://github.com/huggingface/transformers/issues/31789",
        ),
        (
            "ValueError: Tokenizer class LLaMATokenizer does not exist or is not currently imported.",
            "transformers 4.49, source",
        ),
        (
            "ValueError: Unrecognized configuration class <class 'transformers.models.llava.configuration_llava.LlavaConfig'> for this kind of AutoModel: AutoModelForCausalLM.",
            "transformers 4.40, source",
        ),
        (
            "ValueError: Unrecognized configuration class <class 'transformers_modules.local.configuration_chatglm.ChatGLMConfig'> to build an AutoTokenizer.",
            "https://github.com/chenyiwan/chatglm-6b-fine-tuning/issues/18",
        ),
        (
            "Exception: data did not match any variant of untagged enum PyPreTokenizerTypeWrapper at line 12564 column 3",
            "tokenizers 0.22, source",
        ),
    ),
    "remote-code-refused": (
        (
            "ValueError: Loading /data/Qwen-7B requires you to execute the configuration file in that repo on your local machine. Make sure you have read the code there to avoid malicious use, then set the option `trust_remote_code=True` to remove this error.",
            "transformers 4.30, source",
        ),
        (
            "ValueError: The repository for McGill-NLP/feedbackQA contains custom code which must be executed to correctly load the dataset. You can inspect the repository content at https://hf.co/datasets/McGill-NLP/feedbackQA.",
            "datasets 2.20, source",
        ),
        (
            "RuntimeError: Dataset scripts are no longer supported, but found glue.py",
            "datasets 5.0, source",
        ),
        (
            "ValueError: Loading /models/chatglm requires you to execute the configuration file in that repo on your local machine. Make sure you have read the code there to avoid malicious use, then set the option `trust_remote_code=True` to remove this error.",
            "transformers 4.49.0, source",
        ),
        (
            "ValueError: The repository for piqa contains custom code which must be executed to correctly load the dataset. You can inspect the repository content at https://hf.co/datasets/piqa.",
            "datasets 2.20, source",
        ),
        (
            "RuntimeError: Dataset scripts are no longer supported, but found wikitext.py",
            "datasets 5.0, source",
        ),
    ),
    "no-pad-token": (
        (
            "ValueError: Asking to pad but the tokenizer does not have a padding token. Please select a token to use as `pad_token` `(tokenizer.pad_token = tokenizer.eos_token e.g.)` or add a new pad token via `tokenizer.add_special_tokens({'pad_token': '[PAD]'})`.",
            "https://github.com/huggingface/trl/issues/466",
        ),
        (
            "ValueError: You are attempting to pad samples but the tokenizer you are using (GPT2Tokenizer) does not have one.",
            "https://github.com/huggingface/transformers/issues/4122",
        ),
        (
            "ValueError: Padding is enabled, but the tokenizer is not configured with a padding token. Explicitly set `tokenizer.pad_token` (e.g. `tokenizer.pad_token = tokenizer.eos_token`) before calling the trainer.",
            "https://github.com/huggingface/trl/pull/1152",
        ),
        (
            "ValueError: Cannot handle batch sizes > 1 if no padding token is defined.",
            "transformers 4.49.0, source",
        ),
    ),
    "lora-modules": (
        (
            "ValueError: Target modules ['query_key_value', 'dense'] not found in the base model. Please check the target modules and try again.",
            "https://github.com/JIA-Lab-research/LongLoRA/issues/68",
        ),
        (
            "ValueError: No modules were targeted for adaptation. This might be caused by a combination of mismatched target modules and excluded modules.",
            "peft 0.14, source",
        ),
        (
            "ValueError: Please specify `target_modules` in `peft_config`",
            "peft 0.10, source",
        ),
        (
            "ValueError: Target modules {'v_proj', 'q_proj'} not found in the base model. Please check the target modules and try again.",
            "peft 0.21.0, source",
        ),
        (
            "ValueError: Please specify `target_modules` or `target_parameters`in `peft_config`",
            "peft, source",
        ),
        (
            "ValueError: Target module Qwen2VisionTransformer() is not supported. Currently, only the following modules are supported: `torch.nn.Linear`, `torch.nn.Embedding`",
            "peft, source",
        ),
    ),
    "shared-weights-not-saved": (
        (
            "RuntimeError: \n            Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading them again: [{'lm_head.weight', 'model.embed_tokens.weight'}].",
            "safetensors 0.8, run",
        ),
        (
            "RuntimeError: The weights trying to be saved contained shared tensors [{'lm_head.weight', 'model.embed_tokens.weight'}] that are mismatching the transformers base configuration.",
            "transformers 4.40, source",
        ),
        (
            "ValueError: You are trying to save a non contiguous tensor: `weight` which is not allowed.",
            "safetensors 0.8, source",
        ),
        (
            "            Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading them again: [{'a', 'b'}].",
            "safetensors 0.8, source",
        ),
        (
            "RuntimeError: The weights trying to be saved contained shared tensors [{'lm_head.weight', 'model.embed_tokens.weight'}] that are mismatching the transformers base configuration. Try saving using `safe_serialization=False` or remove this tensor sharing.",
            "transformers 4.49.0, source",
        ),
    ),
    "dataset-not-found": (
        (
            "RuntimeError: Dataset not found or corrupted. You can use download=True to download it",
            "https://github.com/friendliai/periflow-python-sdk/pull/11",
        ),
        (
            "RuntimeError: File not found or corrupted.",
            "torchvision 0.28, source",
        ),
        (
            "FileNotFoundError: Couldn't find any data file at /data/alpaca. Couldn't find 'alpaca' on the Hugging Face Hub either: ConnectionError",
            "datasets 5.0, source",
        ),
        (
            "datasets.data_files.EmptyDatasetError: The directory at /data/alpaca doesn't contain any data files",
            "datasets 2.20, source",
        ),
        (
            "FileNotFoundError: Unable to find '/data/alpaca/train.json'",
            "datasets 5.0.1, source",
        ),
        (
            "FileNotFoundError: Couldn't find any class folder in /data/imagenet/train.",
            "torchvision 0.15, source",
        ),
        (
            "FileNotFoundError: Found no valid file for the classes .git. Supported extensions are: .jpg, .jpeg, .png",
            "torchvision 0.15, source",
        ),
        (
            "RuntimeError: Found 0 files in subfolders of: /data/imagenet/train",
            "torchvision, source",
        ),
        (
            "FileNotFoundError: Dict not found: /zjw/testproject/data/mustc/en-fr/dict.txt",
            "https://github.com/facebookresearch/fairseq/issues/2831",
        ),
        (
            "datasets.exceptions.DataFilesNotFoundError: No (supported) data files found in yaak-ai/L2D-v3",
            "https://github.com/huggingface/lerobot/issues/2322",
        ),
    ),
    "download-incomplete": (
        (
            'RuntimeError: invalid hash value (expected "f37072fd", got "8b1e7c6a")',
            "torch 2.13, source",
        ),
        (
            "urllib.error.ContentTooShortError: <urlopen error retrieval incomplete: got only 89128 out of 46830571 bytes>",
            "Python 3.11, run",
        ),
        (
            "OSError: Consistency check failed: file should be of size 9976570304 but has size 9976562112 (pytorch_model.bin).",
            "huggingface_hub 0.34, source",
        ),
        (
            "requests.exceptions.ChunkedEncodingError: ('Connection broken: IncompleteRead(8192 bytes read, 1024 more expected)', IncompleteRead(8192 bytes read, 1024 more expected))",
            "requests 2.34, run",
        ),
        (
            "RuntimeError: Data processing error: CAS service error : Reqwest Error: HTTP status client error (416 Range Not Satisfiable)",
            "hf_xet, source",
        ),
        (
            "datasets.utils.info_utils.NonMatchingChecksumError: Checksums didn't match for dataset source files:",
            "https://github.com/allenai/scirepeval/issues/35",
        ),
        (
            "datasets.utils.info_utils.NonMatchingSplitsSizesError: [{'expected': SplitInfo(name='test', num_bytes=1305088, num_examples=4358)}]",
            "https://github.com/EleutherAI/lm-evaluation-harness/issues/1311",
        ),
        (
            "datasets.exceptions.ExpectedMoreSplitsError: {'train'}",
            "https://github.com/LiveCodeBench/LiveCodeBench/issues/48",
        ),
        (
            "[rank0]: huggingface_hub.utils._errors.HfHubHTTPError: 416 Client Error: Requested Range Not Satisfiable for url: https://cdn-lfs-us-1.huggingface.co/repos/x",
            "vLLM 0.5.3 for ROCm, documented",
        ),
    ),
    "dataset-rows-differ": (
        (
            "pyarrow.lib.ArrowInvalid: JSON parse error: Missing a comma or '}' after an object member. in row 0",
            "pyarrow 25.0, run",
        ),
        (
            "ArrowTypeError: Expected bytes, got a 'int' object",
            "https://github.com/findalexli/mllm-dpo/issues/2",
        ),
        (
            "datasets.exceptions.DatasetGenerationCastError: An error occurred while generating the dataset\n\nAll the data files must have the same columns, but at some point there are 1 new columns ({'history'})",
            "datasets 5.0.1, source",
        ),
        (
            "TypeError: Couldn't cast array of type string to null",
            "datasets 2.20, source",
        ),
        (
            "datasets.table.CastError: Couldn't cast",
            "datasets 2.20, source",
        ),
        (
            "pyarrow.lib.ArrowInvalid: Column 1 named input_ids expected length 1000 but got length 998",
            "pyarrow, source",
        ),
    ),
    "arrow-too-large": (
        (
            "pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays",
            "https://github.com/hiyouga/LlamaFactory/issues/2561",
        ),
        (
            "pyarrow.lib.ArrowCapacityError: array cannot contain more than 2147483646 bytes, have 2147489180",
            "pyarrow 25.0.1, source",
        ),
        (
            "OverflowError: There was an overflow with type <class 'list'>. Try to reduce writer_batch_size to have batches smaller than 2GB.",
            "datasets 5.2, source",
        ),
        (
            "pyarrow.lib.ArrowNotImplementedError: Nested data conversions not implemented for chunked array outputs",
            "pyarrow, unverified",
        ),
    ),
    "datasets-version": (
        (
            "NotImplementedError: Loading a dataset cached in a LocalFileSystem is not supported.",
            "https://github.com/huggingface/datasets/issues/6352",
        ),
        (
            "ValueError: Feature type 'List' not found. Available feature types: ['Value', 'ClassLabel']",
            "datasets 5.0.1, source",
        ),
        (
            "ValueError: Invalid pattern: '**' can only be an entire path component",
            "fsspec 2026.9, source",
        ),
        (
            "TypeError: must be called with a dataclass type or instance",
            "Python 3.11, run",
        ),
    ),
    "data-file-broken": (
        (
            "tarfile.ReadError: unexpected end of data",
            "https://github.com/wenet-e2e/wenet/issues/981",
        ),
        (
            "zipfile.BadZipFile: File is not a zip file",
            "Python 3.11, run",
        ),
        (
            "EOFError: Compressed file ended before the end-of-stream marker was reached",
            "Python 3.11, run",
        ),
        (
            "gzip.BadGzipFile: Not a gzipped file (b'<!')",
            "Python 3.11, run",
        ),
        (
            "zlib.error: Error -3 while decompressing data: invalid block type",
            "Python 3.11, run",
        ),
        (
            "pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.",
            "pyarrow 25.0, run",
        ),
        (
            "OSError: Couldn't deserialize thrift: TProtocolException: Invalid data",
            "pyarrow 25, source",
        ),
        (
            "OSError: Unable to open file (truncated file: eof = 96, sblock->base_addr = 0, stored_eof = 2048)",
            "HDF5 1.10.8, source",
        ),
        (
            "OSError: Can't synchronously read data (filter returned failure during read)",
            "h5py 3.14, run",
        ),
        (
            "lmdb.CorruptedError: mdb_get: MDB_CORRUPTED: Located page was wrong type",
            "LMDB, source",
        ),
        (
            "AssertionError: Index file doesn't match expected format. Make sure that --dataset-impl is configured properly.",
            "https://github.com/facebookresearch/fairseq/issues/2644",
        ),
        ("pyarrow.lib.ArrowInvalid: Not an Arrow file", "https://github.com/dandelin/ViLT/issues/78"),
        (
            "OSError: Expected to be able to read 1013159856 bytes for message body, got 513144496",
            "https://github.com/apache/arrow/issues/44146",
        ),
        ("ValueError: mmap length is greater than file size", "Python 3.11, run"),
        ("_pickle.UnpicklingError: Failed to interpret file '/data/a.npy' as a pickle", "NumPy 2.4, source"),
        ("EOFError: No data left in file", "NumPy 2.4, source"),
        ("ValueError: Cannot load file containing pickled data when allow_pickle=False", "NumPy 1.26, unverified"),
        (
            "ValueError: This file contains pickled (object) data. If you trust the file you can load it unsafely using the `allow_pickle=` keyword argument or `pickle.load()`.",
            "NumPy 2.4, source",
        ),
        (
            "pyarrow.lib.ArrowInvalid: Could not open Parquet input source 'x.parquet': Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.",
            "pyarrow 26.0, run",
        ),
        (
            "AssertionError: bad header, cannot read: /data/corpus_text_document.idx",
            "megatron-core 0.16, source",
        ),
        (
            "pyarrow.lib.ArrowInvalid: Tried reading schema message, was null or length 0",
            "https://github.com/huggingface/datasets/issues/568",
        ),
        (
            "OSError: Corrupt snappy compressed data.",
            "pyarrow 26.0, source",
        ),
        (
            "ValueError: Expected object or value",
            "pandas 3.1, source",
        ),
    ),
    "image-broken": (
        (
            "PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO object at 0x7fe11bd4ddb0>",
            "https://github.com/avishkarsaha/translating-images-into-maps/issues/27",
        ),
        (
            "soundfile.LibsndfileError: <exception str() failed>",
            "https://github.com/bastibe/python-soundfile/issues/360",
        ),
        (
            "OSError: image file is truncated (12 bytes not processed)",
            "Pillow 13.0, run",
        ),
        (
            "OSError: broken data stream when reading image file",
            "Pillow, source",
        ),
        (
            "PIL.Image.DecompressionBombError: Image size (324000000 pixels) exceeds limit of 178956970 pixels, could be decompression bomb DOS attack.",
            "Pillow 13, run",
        ),
        (
            "decord._ffi.base.DECORDError: [16:56:24] /github/workspace/src/video/video_reader.cc:151: Check failed: st_nb >= 0 (-1381258232 vs. 0) ERROR cannot find video stream with wanted index: -1",
            "https://github.com/dmlc/decord/issues/162",
        ),
        (
            "soundfile.LibsndfileError: Error opening '/data/a.wav': Format not recognised.",
            "soundfile 0.14.0, run",
        ),
        (
            "cv2.error: OpenCV(3.4.8) /io/opencv/modules/imgproc/src/color.cpp:182: error: (-215:Assertion failed) !_src.empty() in function 'cvtColor'",
            "https://github.com/leoxiaobin/deep-high-resolution-net.pytorch/issues/220",
        ),
        (
            "RuntimeError: Could not push packet to decoder: Invalid data found when processing input",
            "https://github.com/meta-pytorch/torchcodec/issues/766",
        ),
        ("SyntaxError: broken PNG file (chunk b'\\x00\\x00\\x00\\x00')", "Pillow 13.0, run"),
        (
            "av.error.InvalidDataError: [Errno 1094995529] Invalid data found when processing input: 'x.mp4'",
            "PyAV 18.1, run",
        ),
    ),
    "samples-differ": (
        (
            "TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'PIL.Image.Image'>",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: Trying to resize storage that is not resizable",
            "https://github.com/autonomousvision/carla_garage/issues/12",
        ),
        (
            "RuntimeError: stack expects each tensor to be equal size, but got [3, 392, 392] at entry 0 and [1, 392, 392] at entry 4",
            "https://github.com/luow23/INP-Former/issues/36",
        ),
        (
            "RuntimeError: Trying to resize storage that is not resizable",
            "https://github.com/ykdai/BasicPBC/issues/3",
        ),
        (
            "RuntimeError: each element in list of batch should be of equal size",
            "torch 2.13, run",
        ),
        (
            "ValueError: Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True' 'truncation=True' to have batched tensors with the same length.",
            "transformers 4.49, source",
        ),
    ),
    "hdf5-lock": (
        (
            "BlockingIOError: [Errno 11] Unable to open file (unable to lock file, errno = 11, error "
            "message = 'Resource temporarily unavailable')",
            "h5py 3.8, run",
        ),
        (
            "OSError: Unable to open file (unable to lock file, errno = 11, error message = 'Resource temporarily unavailable')",
            "https://github.com/open-mpi/ompi/issues/6535",
        ),
        (
            "OSError: [Errno 9] Unable to synchronously open file (unable to lock file, errno = 9, error message = 'Bad file descriptor')",
            "https://github.com/lhotse-speech/lhotse/issues/1358",
        ),
    ),
    "lmdb-readers": (
        (
            "lmdb.ReadersFullError: mdb_txn_begin: MDB_READERS_FULL: Environment maxreaders limit reached",
            "py-lmdb, unverified",
        ),
        (
            "lmdb.BadRslotError: mdb_txn_begin: MDB_BAD_RSLOT: Invalid reuse of reader locktable slot",
            "LMDB 0.9.24, source",
        ),
        (
            "lmdb.Error: The environment '/data/train.lmdb' is already open in this process.",
            "py-lmdb, unverified",
        ),
    ),
    "lmdb-full": (
        (
            "lmdb.MapFullError: mdb_put: MDB_MAP_FULL: Environment mapsize limit reached",
            "py-lmdb 1.4, source",
        ),
    ),
    "webdataset-shards": (
        (
            "ValueError: input pipeline needs to be reconfigured for multinode training",
            "https://github.com/webdataset/webdataset/issues/178",
        ),
        (
            "ValueError: you need to add an explicit nodesplitter to your input pipeline for multi-node training",
            "webdataset 0.2.86, source",
        ),
        (
            "ValueError: No samples found in dataset; perhaps you have fewer shards than workers.",
            "webdataset 0.2, source",
        ),
        (
            "[rank9]: pipeline = self._get_pipeline_from_tar(tar_paths[0], tar_iterators[0])\n[rank9]: IndexError: list index out of range",
            "https://github.com/huggingface/datasets/issues/8201",
        ),
        (
            "ValueError: Cannot split an iterable dataset with num_shards=3 across world_size=8 nodes with strategy='shards' because some nodes would not be assigned any shard.",
            "datasets 5.2, source",
        ),
        (
            "ValueError: Cannot iterate with strategy='shards': the dataset now has num_shards=3, which is lower than world_size=8, so some nodes would not be assigned any shard.",
            "datasets 5.2, source",
        ),
    ),
    "cloud-credentials": (
        (
            "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
            "botocore 1.43, source",
        ),
        (
            "google.auth.exceptions.DefaultCredentialsError: Your default credentials were not found. To set up Application Default Credentials, see https://cloud.google.com/docs/authentication/external/set-up-adc for more information.",
            "google-auth 2.59, source",
        ),
        (
            "botocore.exceptions.ClientError: An error occurred (403) when calling the HeadObject operation: Forbidden",
            "botocore 1.43, run",
        ),
        (
            "fatal error: Unable to locate credentials",
            "awscli 1.45.11, source",
        ),
        (
            "google.api_core.exceptions.Forbidden: 403 GET https://storage.googleapis.com/storage/v1/b/data: trainer@p.iam.gserviceaccount.com does not have storage.objects.get access to the Google Cloud Storage object.",
            "Google Cloud Storage, documented",
        ),
    ),
    "nltk-data-missing": (
        (
            "LookupError: \n**********************************************************************\n  Resource 'punkt' not found.\n  Please use the NLTK Downloader to obtain the resource:",
            "nltk 3.10, source",
        ),
    ),
    "dataset-part-unknown": (
        ("ValueError: BuilderConfig 'main' not found. Available: ['default']", "datasets 5.2, source"),
        ("ValueError: Unknown split \"validation\". Should be one of ['train', 'test'].", "datasets 5.2, source"),
        ("ValueError: Config name is missing.", "datasets 5.2, source"),
        ('ValueError: Instruction "train" corresponds to no data!', "datasets 5.2, source"),
        (
            "ValueError: Bad split: train. Available splits: ['test']",
            "datasets, source",
        ),
    ),
    "streaming-shared-memory": (
        (
            "FileExistsError: [Errno 17] File exists: '/000000_epoch_shape'",
            "https://github.com/mosaicml/streaming/issues/767",
        ),
        (
            "ValueError: Reused local directory: ['/tmp/31e2e930a4f3'] vs ['/tmp/31e2e930a4f3']. Provide a different one. If using a unique local directory, try deleting the local directory and call `streaming.base.util.clean_stale_shared_memory()` only once in your script to clean up the stale shared memory before instantiation of `StreamingDataset`.",
            "mosaicml-streaming 0.13, source",
        ),
    ),
    "cloud-object-missing": (
        (
            "botocore.errorfactory.NoSuchKey: An error occurred (NoSuchKey) when calling the GetObject operation: The specified key does not exist.",
            "botocore 1.44, source",
        ),
        (
            "azure.core.exceptions.ResourceNotFoundError: The specified blob does not exist.",
            "Azure Blob Storage, documented",
        ),
    ),
    "cloud-unreachable": (
        (
            'botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "https://data.s3.us-east-1.amazonaws.com/train/0001.tar"',
            "botocore 1.44, source",
        ),
        (
            'botocore.exceptions.ReadTimeoutError: Read timeout on endpoint URL: "https://data.s3.us-east-1.amazonaws.com/train/0001.tar"',
            "botocore 1.44, source",
        ),
        (
            "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the GetObject operation (reached max retries: 4): Please reduce your request rate.",
            "botocore 1.44, source",
        ),
        ("fsspec.exceptions.FSTimeoutError", "fsspec 2024.2, unverified"),
        (
            "OSError: AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 28, Timeout was reached",
            "https://github.com/ray-project/ray/issues/43803",
        ),
    ),
    "annotation-format": (
        (
            "ValueError: class `EpochBasedTrainLoop` in mmengine/runner/loops.py: class `OCRDataset` in mmocr/datasets/ocr_dataset.py: Annotation must have data_list and metainfo keys",
            "https://github.com/open-mmlab/mmocr/issues/1908",
        ),
        (
            "TypeError: The annotations loaded from annotation file should be a dict, but got <class 'list'>!",
            "mmengine 0.10, source",
        ),
        ("AssertionError: annotation file format <class 'list'> not supported", "pycocotools, source"),
    ),
    "directory-for-file": (
        (
            "IsADirectoryError: [Errno 21] Is a directory: '.../checkpoints/last.ckpt'",
            "https://github.com/Lightning-AI/lightning-thunder/issues/1942",
        ),
        ("NotADirectoryError: [Errno 20] Not a directory: '/data/train.tar/0001.jpg'", "Python 3.11, run"),
        (
            "IsADirectoryError: The checkpoint path exists and is a directory: /runs/last.ckpt",
            "lightning-fabric 2.6, source",
        ),
    ),
    "checkpoint-part-elsewhere": (
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'output_model/checkpoint-10/random_states_1.pkl'",
            "https://github.com/huggingface/diffusers/issues/2091",
        ),
        (
            "    self.step = override_attributes[\"step\"]\nKeyError: 'step'",
            "https://github.com/huggingface/diffusers/issues/8828",
        ),
        (
            "[rank9]: FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/epoch_1/pytorch_model_fsdp.bin'",
            "accelerate 1.15, source",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/home/me/checkpoints/ckpt_epoch=07-val_loss=0.80.ckpt'",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/4223",
        ),
    ),
    "indexed-data-missing": (
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/dataset/index-cache/43d5bc1477867ae12d66da383c2b664b_doc_idx.npy'",
            "https://github.com/deepspeedai/Megatron-DeepSpeed/issues/356",
        ),
        (
            "Dataset does not exist: /data/openwebtext/subset-01\nTraceback (most recent call last):\n"
            '  File "/mega/Megatron-LM/megatron/data/gpt_dataset.py", line 134, in get_indexed_dataset_\n'
            "    indexed_dataset.sizes.shape[0]))\nAttributeError: 'NoneType' object has no attribute 'sizes'",
            "https://github.com/NVIDIA/Megatron-LM/issues/119",
        ),
    ),
    "iterable-without-length": (
        (
            "TypeError: object of type 'IterableDatasetWrapper' has no len()",
            "https://github.com/NVIDIA-NeMo/Speech/issues/12093",
        ),
        (
            "TypeError: You seem to have configured a sampler in your DataLoader which does not provide `__len__` method. The sampler was about to be replaced by `DistributedSamplerWrapper` since `use_distributed_sampler` is True and you are using distributed training.",
            "lightning-fabric 2.6, source",
        ),
    ),
    "streaming-cache-shared": (
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/cache_stream_2node/cache_24___label__en/train/shard.00085.mds.zstd'",
            "https://github.com/mosaicml/streaming/issues/400",
        ),
    ),
    "tokenizer-file-broken": (
        (
            "RuntimeError: Internal: could not parse ModelProto from /root/autodl-tmp/chatglm3-6b/tokenizer.model",
            "https://github.com/hiyouga/LlamaFactory/issues/3229",
        ),
        (
            "RuntimeError: Internal: [model_proto->ParseFromArray(serialized.data(), serialized.size())] ",
            "https://github.com/Vision-CAIR/MiniGPT-4/issues/96",
        ),
    ),
    "tokenizer-not-converted": (
        (
            "ValueError: Couldn't instantiate the backend tokenizer from one of: ",
            "https://github.com/EvilBT/ComfyUI_SLK_joy_caption_two/issues/8",
        ),
        (
            "ValueError: Converting from Tiktoken failed, if a converter for SentencePiece is available, provide a model path with a SentencePiece tokenizer.model file.",
            "transformers 4.46, source",
        ),
        (
            "OSError: Unable to load vocabulary from file. Please check that the provided vocabulary is accessible and not corrupted.",
            "transformers 4.46, source",
        ),
    ),
    "json-not-serializable": (
        (
            "TypeError: Object of type Tensor is not JSON serializable",
            "https://github.com/tatsu-lab/stanford_alpaca/issues/314",
        ),
        (
            "TypeError: Object of type 'int64' is not JSON serializable",
            "https://github.com/huggingface/transformers/issues/10299",
        ),
    ),
    "dataset-without-numbers": (
        (
            '  File "/opt/lib/python3.10/site-packages/torch/utils/data/_utils/fetch.py", line 49, in fetch\nKeyError: 2817',
            "https://github.com/huggingface/peft/issues/1729",
        ),
    ),
    "checkpoint-without-progress": (
        (
            "    iteration = checkpoint_dict['iteration']\nKeyError: 'iteration'",
            "https://github.com/NVIDIA/flowtron/issues/116",
        ),
        (
            "    self.train_loop._epoch = checkpoint['meta']['epoch']\nKeyError: 'epoch'",
            "https://github.com/open-mmlab/mmocr/issues/1715",
        ),
        (
            "A metadata file exists but unable to load iteration from checkpoint /checkpoints/iter_0000100/mp_rank_00/model_optim_rng.pt, exiting",
            "Megatron-LM, source",
        ),
    ),
}
