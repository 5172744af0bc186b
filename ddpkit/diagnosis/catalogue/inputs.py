"""Models, tokenizers, checkpoints and data sets that a library cannot read."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="model-files-missing",
        doubtful=True,
        title="Error no file named pytorch_model.bin found in directory; Can't load tokenizer for; Repo id must be in the form",
        patterns=(
            r"Error no file named (?P<file>[\w.-]+)[^/]* found in directory (?P<path>\S+?)\.?$",
            r"(?P<path>\S+) does not appear to have (?:a file named|files named) (?P<file>[\w.(' -]+?)[,.]? ",
            r"Can't load (?:the )?(?:tokenizer|configuration|config|model|feature extractor|image processor|processor) (?:for|of) '(?P<path>[^']+)'",
            r"Repo id must (?:be in the form|use alphanumeric).*: '(?P<path>[^']+)'",
            r"Incorrect path_or_model_id: '(?P<path>[^']+)'",
            r"Unrecognized model in (?P<path>\S+)\. Should have a `model_type` key",
            r"Can't find '(?P<file>adapter_config\.json|config\.json)' at '(?P<path>[^']*)'",
        ),
        cause="no model can be loaded from {path}[: {file} is not there]. The directory does not exist on this host, lacks "
        "files, or is a checkpoint of another kind. A path that does not exist is taken for a name on the hub",
        probe="on that host, the same way: ls -l {path}; pwd",
        fix="pass the full path of a directory with config.json, the tokenizer's files and the weights, on all hosts. Of a "
        "checkpoint of DeepSpeed, make the weights with its zero_to_fp32.py. An adapter (LoRA) loads with peft, on its base model",
        link="https://huggingface.co/docs/transformers/main_classes/model",
    ),
    Entry(
        id="resume-checkpoint-missing",
        title="Can't find a valid checkpoint at; No valid checkpoint found in output directory",
        patterns=(
            r"Can't find a valid checkpoint at (?P<path>\S+)",
            r"No valid checkpoint found in output directory \((?P<path>[^)]*)\)",
            r"Checkpoint (?:file )?(?:at )?(?P<path>/\S+) not found\. Aborting training",
            r"Checkpoint file not found: (?P<path>\S+)",
            r"Invalid for universal checkpoint: (?P<path>\S+) does not exist",
            r"FileNotFoundError: (?P<path>\S+) can not be found\.",
            r"Error: .*failed to resume from checkpoint (?P<path>\S+)",
            r"assert len\(self\.ckpt_list\) > 0",
            r"Trying to restore training state but checkpoint contains only the model",
            r"ValueError: Tried to find (?P<path>\S+) but folder does not exist",
            r"FileNotFoundError: .*Model path (?P<path>\S+) does not exist",
            r"The path (?P<path>\S+) does not point to a valid checkpoint\. Make sure",
            r"CheckpointingException: Checkpoint directory (?P<path>\S+) does not exist",
        ),
        cause="the run cannot resume from {path|this checkpoint}: no complete checkpoint is there. The run before ended while it saved, or "
        "only an adapter or the weights were saved",
        probe="on all hosts: ls -l {path|PATH} (DeepSpeed: global_step*/ and `latest`; Trainer: the weights, optimizer.pt, "
        "trainer_state.json)",
        fix="resume from the checkpoint before it, or start without resume_from_checkpoint. Save whole checkpoints "
        "(save_only_model=False; Lightning: save_weights_only=False), to a file system that all nodes share",
        link="https://github.com/PKU-YuanGroup/Video-LLaVA/issues/42",
    ),
    Entry(
        id="checkpoint-directory-race",
        title="No such file or directory: 'tmp-checkpoint-500' -> 'checkpoint-500'; Directory not empty: 'checkpoint-500'",
        patterns=(
            r"No such file or directory: '(?P<path>[^']*tmp-checkpoint-\w+)'",
            r"Directory not empty: '(?P<path>[^']*checkpoint-\w+)'",
            r"File exists: '(?P<path>[^']*checkpoint-\d+)'",
        ),
        explains=("file-missing", "file-exists-race", "dangling-link"),
        cause="several ranks or nodes renamed or deleted one checkpoint directory at the same time: {path}",
        probe="pip show transformers; ls -l of that directory, on each node",
        fix="pip install -U transformers (4.36 and 4.48 have this fault). On a file system that nodes share, keep "
        "save_on_each_node=False. A second run needs another output_dir",
        action="retry",
        reason="ranks renamed one checkpoint at the same time",
        link="https://github.com/huggingface/transformers/issues/27925",
    ),
    Entry(
        id="tokenizer-newer",
        title="data did not match any variant of untagged enum; Tokenizer class ... does not exist; KeyError: 'mistral'",
        patterns=(
            r"data did not match any variant of untagged enum (?P<part>\w+)",
            r"Tokenizer class (?P<part>\w+) does not exist or is not currently imported",
            r"Unrecognized configuration class .*(?P<part>\b\w+Config)'> for this kind of AutoModel",
            r"Unrecognized configuration class .*(?P<part>\b\w+Config)'> to build an AutoTokenizer",
        ),
        cause="the installed transformers or tokenizers does not know the model's {part}: the model was saved by a newer "
        "version, or by another class",
        probe="pip show transformers tokenizers; grep -E 'tokenizer_class|transformers_version' *.json, beside the model",
        fix="pip install -U transformers tokenizers, on all nodes. For a config class of another kind (a model of images and "
        "text), use its own class in place of AutoModelForCausalLM. Of a checkpoint without tokenizer, load that of its base model. For `LLaMATokenizer`, write LlamaTokenizer in "
        "tokenizer_config.json",
        link="https://github.com/huggingface/transformers/issues/31789",
    ),
    Entry(
        id="remote-code-refused",
        title="requires you to execute the configuration file in that repo; contains custom code; Dataset scripts are no longer supported",
        patterns=(
            r"Loading (?P<name>\S+) requires (?:you )?to execute (?:the|some) \w+ (?:file|code) in that repo",
            r"repository for (?P<name>\S+) contains custom code which must be executed",
            r"Dataset scripts are no longer supported, but found (?P<name>\S+)",
        ),
        cause="{name} brings its own Python code, and the installed library does not run that without consent, or not at all",
        probe="pip show transformers datasets; read the code in the repository of {name}",
        fix="for code that you trust: trust_remote_code=True. datasets 4 runs no scripts: pip install 'datasets<4', or use "
        "the data set's Parquet version (revision='refs/convert/parquet')",
        link="https://huggingface.co/docs/datasets/main/en/load_hub",
    ),
    Entry(
        id="no-pad-token",
        title="Asking to pad but the tokenizer does not have a padding token",
        patterns=(
            r"Asking to pad but the tokenizer does not have a padding token",
            r"attempting to pad samples but the tokenizer you are using \(\w+\) does not have one",
            r"Padding is enabled, but the tokenizer is not configured with a padding token",
            r"Cannot handle batch sizes > 1 if no padding token is defined",
        ),
        cause="the model's tokenizer has no padding token, and a batch needs one. Those of GPT-2, Llama and others have none",
        probe="python -c 'from transformers import AutoTokenizer as A; print(A.from_pretrained(\"MODEL\").pad_token)'",
        fix="tokenizer.pad_token = tokenizer.eos_token, and model.config.pad_token_id = tokenizer.pad_token_id",
        link="https://github.com/huggingface/trl/issues/466",
    ),
    Entry(
        id="lora-modules",
        title="Target modules ... not found in the base model",
        patterns=(
            r"Target modules? (?P<modules>.+) not found in the base model",
            r"No modules were targeted for adaptation",
            r"Please specify `target_modules`.* ?in `peft_config`",
            r"is not supported\. Currently, only the following modules are supported",
        ),
        cause="peft finds no layers with the names in target_modules[: {modules}], or LoRA does not support what has such a name. Each family of models names its layers in "
        "its own way",
        probe="print([name for name, _ in model.named_modules()])",
        fix="pass target_modules='all-linear', or the names that this model has: q_proj and v_proj in Llama, query_key_value "
        "in Bloom and GLM, W_pack in Baichuan, c_attn in Qwen",
        link="https://huggingface.co/docs/peft/developer_guides/troubleshooting",
    ),
    Entry(
        id="shared-weights-not-saved",
        title="Some tensors share memory, this will lead to duplicate memory on disk",
        patterns=(
            r"Some tensors share memory, this will lead to duplicate memory",
            r"weights trying to be saved contained shared tensors",
            r"You are trying to save a non contiguous tensor",
        ),
        cause="safetensors does not save parameters that share memory, as embedding and lm_head often do, or that are not "
        "contiguous",
        probe="the names of the tensors are in the message",
        fix="save with safetensors.torch.save_model(model, path), or as pickle: save_safetensors=False, "
        "safe_serialization=False. For a tensor that is not contiguous: tensor.contiguous()",
        link="https://huggingface.co/docs/safetensors/torch_shared_tensors",
    ),
    Entry(
        id="dataset-not-found",
        doubtful=True,
        title="Dataset not found or corrupted. You can use download=True; Couldn't find any data file at",
        patterns=(
            r"Dataset (?:metadata )?not found(?: or corrupted)?\.? You can use download=True",
            r"RuntimeError: File not found or corrupted",
            r"Couldn't find (?:a dataset script|any data file) at (?P<path>\S+?)\.? ",
            r"EmptyDatasetError: The directory at (?P<path>\S+) doesn't contain any data files",
            r"FileNotFoundError: (?:Couldn't find|Unable to find) '(?P<path>[^']+)'",
            r"FileNotFoundError: (?:Dict|Dataset) not found: (?:\w+ \()?(?P<path>[^)\s]+)",
            r"Couldn't find any class folder in (?P<path>\S+?)\.?$",
            r"Found no valid file for the classes",
            r"Found 0 files in subfolders of: (?P<path>\S+)",
            r"No \(supported\) data files found in (?P<path>\S+)",
        ),
        cause="the data is not, or not completely, at {path|its directory} on this host. The directory differs, is not mounted, "
        "or another rank is still downloading to it",
        probe="on that host, the same way: ls -l {path|ROOT}; pwd",
        fix="download once before the run, to a directory that all ranks read, and pass its full path. Or let one rank of "
        "a host download, and the others wait at torch.distributed.barrier() before they open the data",
        link="https://docs.pytorch.org/vision/stable/datasets.html",
    ),
    Entry(
        id="download-incomplete",
        doubtful=True,
        title="invalid hash value (expected ...); retrieval incomplete; Consistency check failed",
        patterns=(
            r"invalid hash value \(expected",
            r"retrieval incomplete: got only (?P<got>\d+) out of (?P<wanted>\d+)",
            r"Consistency check failed: file should be of size (?P<wanted>\d+) but has size (?P<got>\d+)",
            r"(?:ChunkedEncodingError|ProtocolError): .*Connection broken: IncompleteRead",
            r"Data processing error: .*\bCAS\b",
            r"NonMatchingChecksumError: ",
            r"NonMatchingSplitsSizesError: ",
            r"ExpectedMoreSplitsError: ",
            r"416 Client Error: Requested Range Not Satisfiable",
        ),
        cause="a download was cut off, or several ranks wrote one file at the same time. The file in the cache is not the "
        "one that the library expects",
        probe="ls -l ~/.cache/torch/hub/checkpoints ~/.cache/huggingface/hub; df -h ~",
        fix="delete the file from the cache, and download it once before the run (for a data set: "
        "download_mode='force_redownload'; for a part of its files: verification_mode='no_checks'). With an error of CAS: export HF_HUB_DISABLE_XET=1",
        link="https://docs.pytorch.org/docs/stable/hub.html",
    ),
    Entry(
        id="dataset-rows-differ",
        title="JSON parse error; Couldn't cast; All the data files must have the same columns",
        patterns=(
            r"ArrowInvalid: JSON parse error: (?P<reason>.*)",
            r"ArrowTypeError: (?P<reason>Expected .*, got .*)",
            r"DatasetGenerationCastError: An error occurred",
            r"All the data files must have the same columns",
            r"Couldn't cast array of type (?P<reason>.*)",
            r"(?:ValueError|CastError): Couldn't cast$",
            r"Column \d+ named (?P<reason>\w+ expected length \d+ but got length \d+)",
        ),
        cause="datasets cannot make one table of the rows[: {reason}]. Rows or files differ in their columns or types, or a "
        "line is no valid JSON",
        probe="python -c 'import json,sys; [json.loads(line) for line in open(sys.argv[1])]' FILE.jsonl",
        fix="give all rows the same columns and types, with one JSON object in a line. Load files with other columns apart, or "
        "pass features=. Rows that dataset.map() returns need lists of one length",
        link="https://huggingface.co/docs/datasets/loading",
    ),
    Entry(
        id="arrow-too-large",
        title="offset overflow while concatenating arrays",
        patterns=(
            r"offset overflow while concatenating arrays",
            r"array cannot contain more than \d+ (?:bytes|elements|child elements)",
            r"Try to reduce writer_batch_size to have batches smaller than 2GB",
            r"Nested data conversions not implemented for chunked array outputs",
        ),
        cause="a block of rows has more than 2 GB in one column, the limit of Arrow's string and binary types",
        probe="ls -l of the data files; the mean size of a row",
        fix="write smaller blocks: writer_batch_size=100 in dataset.map(). Or split the data into files below 1 GB, or use "
        "the type large_string",
        link="https://github.com/huggingface/datasets/issues/6206",
    ),
    Entry(
        id="datasets-version",
        title="Feature type 'List' not found; Loading a dataset cached in a LocalFileSystem is not supported",
        patterns=(
            r"Feature type '(?P<type>\w+)' not found",
            r"Loading a dataset cached in a LocalFileSystem is not supported",
            r"Invalid pattern: '\*\*' can only be an entire path component",
            r"TypeError: must be called with a dataclass type or instance",
        ),
        cause="the installed datasets is too old: for the data set or a cache that a newer version wrote, or for the installed "
        "fsspec",
        probe="pip show datasets fsspec huggingface_hub",
        fix="pip install -U datasets fsspec, on all nodes. If it cannot be updated, delete the cache of this data set "
        "(~/.cache/huggingface/datasets)",
        link="https://github.com/huggingface/datasets/issues/6352",
    ),
    Entry(
        id="data-file-broken",
        doubtful=True,
        title="tarfile.ReadError; File is not a zip file; Parquet magic bytes not found; truncated file",
        patterns=(
            r"tarfile\.ReadError: (?P<reason>.+)",
            r"BadZipFile: (?P<reason>.+)",
            r"EOFError: (?P<reason>Compressed file ended) before the end-of-stream marker",
            r"BadGzipFile: (?P<reason>.+)",
            r"zlib\.error: (?P<reason>.+)",
            r"(?P<reason>Index file) doesn't match expected format",
            r"ArrowInvalid: (?:.*: )?(?P<reason>Parquet magic bytes not found in footer)",
            r"Couldn't deserialize thrift: (?P<reason>.*)",
            r"Unable to (?:synchronously )?open file \((?P<reason>truncated file|file signature not found|bad object header)",
            r"Can't (?:synchronously )?read data \((?P<reason>(?:[^()]|\(\))*)",
            r"OSError: (?P<reason>Corrupt \w+ compressed data)",
            r"ValueError: (?P<reason>Expected object or value)$",
            r"lmdb\.(?:Corrupted|Invalid|PageNotFound)Error: (?P<reason>.+)",
            r"ArrowInvalid: (?:.*: )?(?P<reason>Not an Arrow file|Parquet file size is \d+ bytes|Tried reading schema message, was null"
            r"|Invalid flatbuffers message|Expected to read \d+ metadata bytes)",
            r"(?P<reason>Expected to be able to read \d+ bytes) for message body, got \d+",
            r"(?P<reason>mmap length) is greater than file size",
            r"Failed to interpret file (?P<reason>.+) as a pickle",
            r"EOFError: (?P<reason>No data left in file)",
            r"Cannot load file containing (?P<reason>pickled data) when allow_pickle=False",
            r"This file contains (?P<reason>pickled \(object\) data)",
            r"(?P<reason>bad (?:header|version), cannot read): \S+\.idx",
        ),
        explains=("checkpoint-empty", "broken-pipe", "disk-full"),
        cause="a file of the data cannot be read: {reason}. Its download or copy was cut off, it is still being written, or "
        "it is another kind of file",
        probe="of the file in the traceback: ls -l FILE; file FILE; head -c 100 FILE",
        fix="delete that file and download or copy it again. Compare sizes or checksums before the run. Pointers of git-lfs "
        "need `git lfs pull`. webdataset skips it with handler=wds.warn_and_continue",
        link="https://github.com/wenet-e2e/wenet/issues/981",
    ),
    Entry(
        id="image-broken",
        doubtful=True,
        title="cannot identify image file; image file is truncated",
        patterns=(
            r"cannot identify image file (?P<path>.+)",
            r"image file is truncated",
            r"broken data stream when reading image file",
            r"DECORDError: (?P<path>(?!.*\bCUDA: ).+)",
            r"LibsndfileError: (?:Error opening )?(?:<exception str\(\) failed>|<unprintable LibsndfileError|(?P<path>.+))",
            r"DecompressionBombError: (?P<path>Image size .*)",
            r"error: \(-215:Assertion failed\) !(?:_?src|ssize|buf|_?img|image)\.empty\(\)",
            r"Could not push packet to decoder: (?P<path>.*)",
            r"SyntaxError: (?P<path>broken PNG file.*)",
            r"InvalidDataError: \[Errno \d+\] Invalid data found when processing input(?:; last error log: .*|: '(?P<path>[^']+)'.*)?",
        ),
        cause="an image, video or sound of the data set cannot be decoded[: {path}]. It is damaged or cut off, or no such "
        "file (a `._` file of macOS, a page of a server)",
        probe="of the file in the traceback: file FILE; python -c 'from PIL import Image; Image.open(\"FILE\").load()'",
        fix="find such files before the run (Image.open(path).load() for each), and delete them or copy them again. To "
        "continue: skip the sample in __getitem__, or for images PIL.ImageFile.LOAD_TRUNCATED_IMAGES = True. cv2.imread returns None for a path that does not exist. Open a video in the worker, not before it starts",
        link="https://pillow.readthedocs.io/en/stable/reference/ImageFile.html",
    ),
    Entry(
        id="samples-differ",
        title="Trying to resize storage that is not resizable; each element in list of batch should be of equal size",
        patterns=(
            r"Trying to resize storage that is not resizable",
            r"stack expects each tensor to be equal size, but got (?P<shapes>\[[\d, ]*\] at entry \d+ and \[[\d, ]*\] at entry \d+)",
            r"each element in list of batch should be of equal size",
            r"default_collate: batch must contain .*found (?P<shapes>\S.*)",
            r"probably activate truncation and/or padding",
        ),
        explains=("shapes-differ",),
        cause="the samples of a batch cannot be put into one tensor[: {shapes}]. They differ in size or type, or one is "
        "None",
        probe="repeat with num_workers=0; print the shapes that __getitem__ returns",
        fix="resize or pad the samples to one size, in __getitem__ or a collate_fn (transformers: a data collator with "
        "padding). Images need .convert('RGB'). Return no None",
        link="https://docs.pytorch.org/docs/stable/data.html#working-with-collate-fn",
    ),
    Entry(
        id="hdf5-lock",
        title="Unable to open file (unable to lock file, errno = 11, error message = 'Resource temporarily unavailable')",
        patterns=(r"unable to lock file, errno = (?P<errno>\d+), error message = '(?P<reason>[^']*)'",),
        explains=("file-lock", "io-error", "cannot-fork"),
        cause="HDF5 cannot lock a file ({reason}). With errno 11, another process or rank has it open for writing. Otherwise "
        "the file system has no locks",
        probe="lsof FILE; df -T FILE; grep -n 'h5py.File' -r .",
        fix="open it for reading alone, in each process: h5py.File(path, 'r'). Write on rank 0 only, and close before the "
        "others open it. On a file system without locks: export HDF5_USE_FILE_LOCKING=FALSE",
        instead=(Instead(of=("cannot-fork",), near=r"\bnetCDF4/|\bh5py/|/xarray/"),),
        link="https://docs.h5py.org/en/stable/high/file.html",
    ),
    Entry(
        id="lmdb-readers",
        title="MDB_READERS_FULL; MDB_BAD_RSLOT; the environment is already open in this process",
        patterns=(
            r"MDB_READERS_FULL\b",
            r"MDB_BAD_RSLOT\b",
            r"lmdb\.Error: The environment '(?P<path>[^']*)' is already open in this process",
        ),
        cause="an lmdb environment was opened before the DataLoader's workers were forked, or more often than it has "
        "reader slots",
        probe="grep -n 'lmdb.open' -r .; mdb_stat -r PATH",
        fix="open it in the worker, at the first __getitem__: lmdb.open(path, readonly=True, lock=False, readahead=False, "
        "max_readers=512)",
        link="https://lmdb.readthedocs.io/en/release/",
    ),
    Entry(
        id="lmdb-full",
        title="MDB_MAP_FULL: Environment mapsize limit reached",
        patterns=(r"MDB_MAP_FULL\b",),
        cause="an lmdb file has reached the map_size that it was opened with",
        probe="ls -l PATH/data.mdb; grep -n map_size -r .",
        fix="lmdb.open(path, map_size=1 << 40). Space is used only as data is written",
        link="https://lmdb.readthedocs.io/en/release/",
    ),
    Entry(
        id="webdataset-shards",
        title="you need to add an explicit nodesplitter; perhaps you have fewer shards than workers",
        patterns=(
            r"add an explicit nodesplitter to your input pipeline",
            r"input pipeline needs to be reconfigured for multinode training",
            r"perhaps you have fewer shards than workers",
            r"IndexError: list index out of range$",
            r"Cannot (?:split an iterable dataset|iterate) with .*some nodes would not be assigned any shard",
        ),
        needs=r"nodesplitter|reconfigured for multinode|fewer shards than workers|some nodes would not be assigned"
        r"|_get_pipeline_from_tar\(tar_paths\[0\]",
        cause="the data set does not know how to split its shards (files) among the ranks, or it has fewer shards than ranks "
        "times workers",
        probe="count the shards; WORLD_SIZE times num_workers",
        fix="WebDataset(urls, nodesplitter=wds.split_by_node), with at least one shard for each worker of each rank. Or set "
        "resampled=True, fewer workers, or empty_check=False. With load_dataset(streaming=True): more and smaller files",
        link="https://github.com/webdataset/webdataset/issues/178",
    ),
    Entry(
        id="cloud-credentials",
        doubtful=True,
        title="Unable to locate credentials; Your default credentials were not found; AccessDenied",
        patterns=(
            r"NoCredentialsError: Unable to locate credentials",
            r"Your default credentials were not found",
            r"ClientError: An error occurred \((?P<code>403|AccessDenied|InvalidAccessKeyId|ExpiredToken|SignatureDoesNotMatch)\)",
            r"fatal error: Unable to locate credentials",
            r"does not have storage\.\w+\.\w+ access",
        ),
        cause="the cloud's storage refused the process[ ({code})]: it has no credentials on this host, or they have expired or "
        "do not permit this",
        probe="on that node, the same way: aws sts get-caller-identity (Google: gcloud auth list)",
        fix="pass the credentials to the ranks: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE with a shared "
        "~/.aws, or GOOGLE_APPLICATION_CREDENTIALS. On cloud machines, give the node's role access to the bucket",
        link="https://boto3.amazonaws.com/v1/documentation/api/latest/guide/credentials.html",
    ),
    Entry(
        id="nltk-data-missing",
        title="Resource punkt not found. Please use the NLTK Downloader",
        patterns=(r"Resource '?(?P<name>[a-z]\w+)'? not found\.",),
        needs=r"NLTK Downloader",
        cause="NLTK's data {name} is not installed on this host",
        probe="ls ~/nltk_data; echo $NLTK_DATA",
        fix="on the login node: python -m nltk.downloader -d /shared/nltk_data {name}. Then export "
        "NLTK_DATA=/shared/nltk_data",
        link="https://www.nltk.org/data.html",
    ),
    Entry(
        id="dataset-part-unknown",
        title="BuilderConfig 'x' not found; Config name is missing; Unknown split \"validation\"",
        patterns=(
            r"BuilderConfig '(?P<name>[^']+)' not found\. Available: (?P<known>.+)",
            r"Unknown split \"(?P<name>[^\"]+)\"\. Should be one of (?P<known>\[[^\]]*\])",
            r"ValueError: Config name is missing\.",
            r"Instruction \"(?P<name>[^\"]+)\" corresponds to no data!",
            r"Bad split: (?P<name>\S+)\. Available splits: (?P<known>\[[^\]]*\])",
        ),
        cause="the data set has no configuration or split[ {name}][: it has {known}], or needs the name of one. A cache of this host "
        "can hold other ones than the hub",
        probe='python -c \'import datasets; print(datasets.get_dataset_config_names("NAME"), datasets.get_dataset_split_names("NAME"))\'',
        fix="pass a name that exists: load_dataset(NAME, CONFIGURATION, split=SPLIT), or split off a validation set with "
        "train_test_split. If the name is right, delete the cache of this data set (~/.cache/huggingface/datasets)",
        link="https://huggingface.co/docs/datasets/loading",
    ),
    Entry(
        id="streaming-shared-memory",
        title="FileExistsError: '/000000_locals'; Reused local directory",
        patterns=(
            r"File exists: '/?\d{6}_(?P<name>locals|barrier|next_epoch|cache_usage|shard_states|shard_access_times|resume|epoch_shape|epoch_data)'",
            r"\bReused local directory: ",
        ),
        explains=("file-exists-race", "dangling-link"),
        cause="MosaicML Streaming keeps its state in shared memory of the host. State of an earlier run is still there, or two "
        "processes that do not know each other as ranks read one data set",
        probe="ls /dev/shm | grep -E '^[0-9]{6}_'; echo $WORLD_SIZE $RANK $LOCAL_WORLD_SIZE in the ranks",
        fix="call streaming.base.util.clean_stale_shared_memory() once before the data sets are made. Start the ranks with a launcher "
        "that sets RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE, and give each data set a local= of its own",
        link="https://github.com/mosaicml/streaming/issues/767",
    ),
    Entry(
        id="cloud-object-missing",
        doubtful=True,
        title="NoSuchKey; NoSuchBucket; An error occurred (404) when calling the HeadObject operation; The specified blob does not exist",
        patterns=(
            r"An error occurred \((?P<code>NoSuchKey|NoSuchBucket|404)\) when calling the \w+ operation",
            r"The specified (?P<code>blob|container|bucket) does not exist",
        ),
        cause="the cloud's storage has no object or bucket of this name ({code}), in this region and at this endpoint",
        probe="on that node, the same way: aws s3 ls s3://BUCKET/PREFIX (Google: gcloud storage ls); env | grep -E 'AWS_|ENDPOINT'",
        fix="correct the address of the data or checkpoint, or set the endpoint of the right storage: AWS_ENDPOINT_URL, "
        "AWS_DEFAULT_REGION. Let no other job delete it while the run reads",
        link="https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html",
    ),
    Entry(
        id="cloud-unreachable",
        doubtful=True,
        title="EndpointConnectionError: Could not connect to the endpoint URL; SlowDown; Read timeout on endpoint URL",
        patterns=(
            r"Could not connect to the endpoint URL: \"(?P<url>[^\"]+)\"",
            r"(?:Connect|Read) timeout on endpoint URL: \"(?P<url>[^\"]+)\"",
            r"An error occurred \((?P<code>SlowDown|RequestTimeout|ServiceUnavailable|InternalError|50\d)\) when calling the \w+ operation",
            r"fsspec\.exceptions\.FSTimeoutError",
            r"OSError: (?:.*: )?AWS Error (?P<code>NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|REQUEST_TIMEOUT|INTERNAL_FAILURE)\b",
        ),
        cause="the cloud's storage did not answer in time[: {url}], or refuses so many requests at once[ ({code})]. Compute nodes "
        "often have no way to it, and all workers of all ranks ask at the same time",
        probe="on that node: curl -sSI {url|https://s3.amazonaws.com}; env | grep -iE 'proxy|AWS_|ENDPOINT'",
        fix="copy the data to a local or shared disk before the run. Otherwise: fewer workers, larger shards, and "
        "AWS_RETRY_MODE=adaptive AWS_MAX_ATTEMPTS=10. In a private network, a VPC endpoint for the storage or a proxy",
        action="retry",
        reason="the storage was not reachable",
        link="https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html",
    ),
    Entry(
        id="annotation-format",
        title="Annotation must have data_list and metainfo keys; annotation file format <class 'list'> not supported",
        patterns=(
            r"Annotation must have data_list and metainfo keys",
            r"annotations loaded from annotation file should be a dict, but got",
            r"annotation file format <class '[\w.]+'> not supported",
        ),
        cause="the annotation file has another form than the class of the data set reads. It is of another format (COCO, VOC, an "
        "older version of the toolbox), or of another data set",
        probe="python -c 'import json,sys; d = json.load(open(sys.argv[1])); print(type(d), list(d)[:9])' FILE",
        fix="set the data set's type to that of the file (CocoDataset for COCO's json), or convert the file with the toolbox's "
        "tools/dataset_converters. MMEngine's own form is a dict with metainfo and data_list",
        link="https://mmengine.readthedocs.io/en/latest/advanced_tutorials/basedataset.html",
    ),
    Entry(
        id="directory-for-file",
        doubtful=True,
        title="IsADirectoryError: [Errno 21] Is a directory; NotADirectoryError: [Errno 20] Not a directory",
        patterns=(
            r"IsADirectoryError: \[Errno 21\] Is a directory: '(?P<path>[^']*)'",
            r"NotADirectoryError: \[Errno 20\] Not a directory: '(?P<path>[^']*)'",
            r"IsADirectoryError: The checkpoint path exists and is a directory: (?P<path>\S+)",
        ),
        cause="{path} is a directory where the program opens a file, or the other way round. A checkpoint of DeepSpeed, FSDP or "
        "torch.distributed.checkpoint is a directory; torch.load reads a file",
        probe="ls -ld {path}; ls {path}",
        fix="pass the file in it, or load the directory with what saved it (DeepSpeed: load_checkpoint, Lightning: the same strategy). "
        "For one file of weights: zero_to_fp32.py, or `python -m torch.distributed.checkpoint.format_utils dcp_to_torch`",
        link="https://github.com/Lightning-AI/lightning-thunder/issues/1942",
    ),
    Entry(
        id="checkpoint-part-elsewhere",
        title="No such file or directory: '.../random_states_1.pkl'; KeyError: 'step' in load_state",
        patterns=(
            r"No such file or directory: '(?P<path>[^']*random_states_\d+\.pkl)'",
            r"No such file or directory: '(?P<path>[^']*/(?:pytorch_model_fsdp|optimizer)(?:_\d+)?\.bin)'",
            r"No such file or directory: '(?P<path>[^']*epoch=[^']*\.ckpt)'",
            r"KeyError: 'step'$",
        ),
        needs=r"No such file or directory: '(?P=path)'|override_attributes\[.step.\]",
        explains=("file-missing",),
        cause="this rank does not find its part of the checkpoint[, {path}]. Rank 0 alone wrote it, on the disk of its node; fewer "
        "ranks saved it; or each rank has an output directory of its own (a time stamp, Hydra)",
        probe="on each node: ls -l {path|CHECKPOINT}, and its directory; df -T .",
        fix="save to a file system that all nodes share, in a directory with one name on all ranks. Start as many ranks as saved. "
        "In accelerate, call save_state on every rank. Load the best checkpoint after a barrier",
        link="https://github.com/huggingface/diffusers/issues/2091",
    ),
    Entry(
        id="indexed-data-missing",
        title="No such file or directory: '..._doc_idx.npy'; Dataset does not exist: /data/subset-01",
        patterns=(
            r"No such file or directory: '(?P<path>[^']*[-_](?:doc|sample|shuffle|document)_(?:idx|index)\.npy)'",
            r"AttributeError: 'NoneType' object has no attribute 'sizes'$",
        ),
        needs=r"No such file or directory: '(?P=path)'|Dataset does not exist: ",
        context=r"Dataset does not exist: (?P<path>\S+)$",
        explains=("file-missing",),
        cause="Megatron's indexed data set, or its index, is not on this host[: {path}]. Rank 0 builds the index; other nodes need it "
        "on a shared disk. A prefix is wrong where PREFIX.bin and PREFIX.idx do not exist",
        probe="on each node: ls -l {path}*; df -T of its directory",
        fix="put the data and its index (--data-cache-path) on a file system that all nodes share. Give --data-path without .bin "
        "and .idx. To build the index first: start once on one node",
        link="https://github.com/deepspeedai/Megatron-DeepSpeed/issues/356",
    ),
    Entry(
        id="iterable-without-length",
        title="TypeError: object of type 'IterableDataset' has no len(); does not provide `__len__` method",
        patterns=(
            r"TypeError: object of type '\w*Iterable\w*' has no len\(\)",
            r"sampler in your DataLoader which does not provide (?:finite )?`__len__` method",
        ),
        cause="an iterable data set or its sampler has no length, and the program asks for one, to count the steps or to share the "
        "samples among ranks",
        probe="grep -rn 'len(' of the code in the traceback",
        fix="give the number of steps: max_steps (transformers), limit_train_batches and max_steps (Lightning, NeMo). For Lightning "
        "also use_distributed_sampler=False. Or define __len__ in the data set",
        link="https://github.com/NVIDIA-NeMo/Speech/issues/12093",
    ),
    Entry(
        id="streaming-cache-shared",
        title="No such file or directory: '.../shard.00085.mds.zstd'",
        patterns=(r"No such file or directory: '(?P<path>[^']*/shard\.\d+\.(?:mds|json|csv|tsv)[^']*)'",),
        explains=("file-missing", "shared-cache"),
        cause="several nodes keep MosaicML Streaming's copy of the data in one directory. One removed a shard, {path}, that another "
        "was about to read",
        probe="on each node: df -T of that directory; echo $LOCAL_WORLD_SIZE $RANK",
        fix="give each node its own local=, on a disk of the node (for example /tmp/data). Delete the directory, and "
        "start again. Keep cache_limit well above the size of some shards for each rank",
        link="https://github.com/mosaicml/streaming/issues/400",
    ),
    Entry(
        id="tokenizer-file-broken",
        title="RuntimeError: Internal: could not parse ModelProto from .../tokenizer.model",
        patterns=(
            r"Internal: could not parse ModelProto from (?P<path>\S+)",
            r"Internal: .*\[model_proto->ParseFromArray\(",
        ),
        cause="sentencepiece cannot read {path|the tokenizer.model}: it is a git-lfs pointer or cut off, as git-lfs was not installed at the "
        "clone, or it has another format. That of Llama 3 is no sentencepiece file",
        probe="ls -l {path|tokenizer.model}; head -c 100 {path|tokenizer.model}",
        fix="if it is small and begins with `version https://git-lfs`: git lfs install && git lfs pull, or huggingface-cli download "
        "NAME. For Llama 3 and other models with tokenizer.json: AutoTokenizer in place of LlamaTokenizer, and a newer transformers",
        link="https://github.com/google/sentencepiece/issues/1054",
    ),
    Entry(
        id="tokenizer-not-converted",
        title="Couldn't instantiate the backend tokenizer from one of; Converting from Tiktoken failed",
        patterns=(
            r"Couldn't instantiate the backend tokenizer from one of",
            r"Converting from (?:SentencePiece and )?Tiktoken failed",
            r"OSError: Unable to load vocabulary from file\. Please check",
        ),
        cause="transformers cannot make the tokenizer from the files of the model. Usually sentencepiece, tiktoken or protobuf is not "
        "installed, or the directory has no complete tokenizer files",
        probe="pip list | grep -iE 'sentencepiece|tiktoken|protobuf|^tokenizers'; ls -l MODEL_DIRECTORY",
        fix="pip install sentencepiece tiktoken protobuf, on all nodes. If they are there: copy tokenizer.json and tokenizer.model from the "
        "base model into the directory, or download them again",
        link="https://github.com/huggingface/transformers/issues/36291",
    ),
    Entry(
        id="json-not-serializable",
        title="TypeError: Object of type Tensor is not JSON serializable",
        patterns=(r"TypeError: Object of type '?(?P<type>\w+)'? is not JSON serializable",),
        cause="a value of the type {type} was to be written as JSON, in metrics, the Trainer's state or a configuration. "
        "transformers 4.38 kept gradient norms of DeepSpeed as tensors",
        probe="pip list | grep -iE 'transformers|accelerate|deepspeed'; the frames above: save_to_json, to_json_string or a tracker",
        fix="pip install -U transformers accelerate, for a Tensor in save_to_json. Values of your own: float(x), x.item(), x.tolist() or "
        "str(x), in compute_metrics, log() and the configuration. The checkpoint that was being saved is not complete",
        link="https://github.com/huggingface/transformers/issues/30038",
    ),
    Entry(
        id="dataset-without-numbers",
        title="KeyError: 2817, in torch/utils/data/_utils/fetch.py",
        patterns=(r"KeyError: (?P<key>\d+)$",),
        needs=r"torch[/\\]utils[/\\]data[/\\]_utils[/\\]fetch\.py",
        cause="a DataLoader asked the data set for item {key}, and it has no such key. It is a dict or a DatasetDict, or pandas, whose "
        "rows kept the labels they had before a split or a filter",
        probe="print(type(dataset), len(dataset)); the last frame of the traceback",
        fix="pass one split (dataset['train']). For pandas: df.reset_index(drop=True), .iloc[i] in __getitem__, or "
        "Dataset.from_pandas(df, preserve_index=False)",
        link="https://github.com/huggingface/transformers/issues/9636",
    ),
    Entry(
        id="checkpoint-without-progress",
        title="KeyError: 'iteration', 'epoch' or 'meta', while a run resumes; Unable to load iteration from checkpoint",
        patterns=(
            r"KeyError: '(?P<key>iteration|total_iters|iter|epoch|global_step|meta)'$",
            r"[Uu]nable to load (?P<key>iteration) from checkpoint",
        ),
        needs=r"(?i)(?:checkpoint|ckpt|state|saved|resume)\w*(?:\[['\"]\w+['\"]\])?\[['\"](?P=key)['\"]\]|Unable to load iteration from",
        cause="the run is to resume, and the file has no `{key}`: it holds weights alone. It is a pretrained or converted model, or the "
        "program keeps the training state in another file",
        probe="python -c 'import torch,sys; print(torch.load(sys.argv[1], map_location=\"cpu\").keys())' CHECKPOINT",
        fix="to begin from these weights, pass them as such: load_from in place of resume (mm*), --finetune (Megatron), "
        "pretrain_network_g (BasicSR). To resume, pass the file that the training saved (training_states, optimizer and step in it)",
        link="https://github.com/XPixelGroup/BasicSR/issues/717",
    ),
)
