"""Files, disks, limits, DataLoader workers and data between processes."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="disk-full",
        title="No space left on device",
        patterns=(
            r"\[Errno 28\] No space left on device(?!: b?['\"]?/dev/shm/)",
            r"(?<!namespace: )No space left on device(?! \(28\))(?!: b?['\"]?/dev/shm/)",
            r"(?:write|file write) failed.*No space left",
            r"basic_ios::clear: iostream (?P<failure>error)",
            r"tar: .*: Wrote only \d+ of \d+ bytes",
            r"^(?!.*/sys/fs/cgroup)(?!.*inotify).*\bno space left on device\b",
        ),
        explains=("checkpoint-not-written", "checkpoint-broken"),
        cause="[a file was not written to its end ({failure}). Usually ]a disk is full or has no free inodes. Checkpoints, logs, /tmp or a cache use it",
        probe="df -h; df -i; the path is in the message or its traceback",
        fix="delete old checkpoints, or use another disk (TMPDIR, HF_HOME, WANDB_DIR, --log-dir; for images ENROOT_TEMP_PATH, APPTAINER_TMPDIR)",
        action="exclude",
        reason="a file system of the host is full",
        link="https://docs.python.org/3/library/errno.html#errno.ENOSPC",
    ),
    Entry(
        id="quota",
        title="Disk quota exceeded",
        patterns=(r"Disk quota exceeded",),
        explains=("checkpoint-not-written", "checkpoint-broken"),
        cause="a quota on the file system is used up: of this user, the project or the directory, in bytes or "
        "in number of files",
        probe="quota -s; du -sh ~/.cache ~/.local (on Lustre: lfs quota -h -u $USER ~)",
        fix="delete old checkpoints, or write to another file system. Move caches: export "
        "HF_HOME=/scratch/$USER/hf PIP_CACHE_DIR=/scratch/$USER/pip",
        link="https://man7.org/linux/man-pages/man1/quota.1.html",
    ),
    Entry(
        id="file-operation-unsupported",
        title="OSError: [Errno 95] Operation not supported; [Errno 38] Function not implemented; [Errno 524]",
        patterns=(
            r"(?<!LOCK_EX\) )(?<!LOCK_SH\) )OSError: \[Errno (?P<code>95|38|524)\] (?:Operation not supported|Function not implemented|Unknown error 524)(?:: '(?P<path>[^']+)')?",
            r"unable to mmap \d+ bytes from file <(?P<path>[^>]*)>: (?:Operation not supported|Function not implemented|No such device)",
        ),
        cause="the file system[ of {path}] does not offer what the program needs: appending, writes in the middle of a file, locks, links or "
        "mapping into memory. Object stores that are mounted as directories often lack these",
        probe="df -T {path|the directory of that file}; mount | grep -iE 'fuse|s3|gcs|blob|dbfs|nfs|lustre'",
        fix="write to a local disk and copy the complete file to the mount, or let rank 0 alone write there. For locks on a network "
        "file system: mount it with flock (Lustre) or local_lock=flock (NFS); HDF5_USE_FILE_LOCKING=FALSE",
        link="https://kb.databricks.com/dbfs/errno95-operation-not-supported",
    ),
    Entry(
        id="triton-cache-full",
        # Found by the place that raised the error: see ddpkit.diagnosis.log_reader.
        title="Disk quota exceeded, or No space left on device, in triton/runtime/cache.py",
        explains=("compile-failed",),
        cause="the file system of triton's cache is full, or its quota is used up. The cache is in the home directory: "
        "~/.triton/cache",
        probe="quota -s; df -h ~/.triton; du -sh ~/.triton ~/.cache",
        fix="move the cache to a local disk: export TRITON_CACHE_DIR=/tmp/triton-$USER "
        "TORCHINDUCTOR_CACHE_DIR=/tmp/inductor-$USER. To see the size of the old one: du -sh "
        "~/.triton/cache",
        instead=(Instead(of=("disk-full", "quota"), near=r"/triton/runtime/cache\.py"),),
        link="https://github.com/NOAA-EPIC/EAGLE/issues/121",
    ),
    Entry(
        id="checkpoint-not-written",
        title="PytorchStreamWriter failed writing file data/807: file write failed",
        kind="generic",
        patterns=(
            r"PytorchStreamWriter failed writing file (?P<path>\S+?):? ",
            r"RuntimeError: File (?P<path>\S+) cannot be opened\.?$",
            r"unexpected pos (?P<numbers>\d+ vs \d+)",
        ),
        cause="torch could not write {path|a checkpoint} to its end[ ({numbers} bytes)]. Usually the disk is full, a quota is used up, the "
        "file system does not answer, or the directory does not exist or is not writable. With enough room, plan caching "
        "of distributed checkpoints in torch 2.10 can be the reason",
        probe="df -h; df -i; quota -s; ls -ld, for the directory of the checkpoint",
        fix="free space or use another disk, and delete the incomplete checkpoint before a restart loads it. Create the "
        "directory first: os.makedirs(path, exist_ok=True). With enough room: "
        "DefaultSavePlanner(enable_plan_caching=False)",
        link="https://docs.pytorch.org/docs/stable/notes/serialization.html",
    ),
    Entry(
        id="shared-cache",
        title="Stale file handle or missing .lock in a cache of Hugging Face, ModelScope, Triton or torch_extensions",
        patterns=(
            r"Stale (?:NFS )?file handle",
            r"No such file or directory: '(?P<path>[^']*(?:\.lock|\.incomplete|\.triton/cache/\S+|huggingface/(?:hub|datasets)/\S+|torch_extensions/\S+))'",
            r"Directory not empty: '(?P<path>[^']*(?:[Cc]ache|huggingface|triton|torch_extensions|\.incomplete)[^']*)'",
            r"Failed to open local file '(?P<path>[^']*(?:\.incomplete|huggingface/datasets/)[^']*)'",
            r"Expected to find locked file (?P<path>\S+) from process \d+ but it doesn't exist",
        ),
        needs=r"filelock|huggingface|modelscope|-packages/datasets/|\.triton|torch_extensions|\.lock\b|\.incomplete",
        explains=(
            "stale-handle",
            "file-missing",
        ),
        cause="several ranks or nodes write one cache at the same time[, {path},] on a shared file system. One "
        "deleted a file or a lock that another one had open",
        probe="env | grep -E 'HF_|MODELSCOPE|TRITON|TORCH_EXT'; df -T ~/.cache; pip show filelock",
        fix="download on one rank before the others (or before the run), or give each node its own cache: "
        "HF_HOME, MODELSCOPE_CACHE, TRITON_CACHE_DIR, TORCH_EXTENSIONS_DIR under /tmp. Update filelock: "
        "pip install -U filelock",
        action="retry",
        reason="ranks used one cache at the same time",
        link="https://github.com/modelscope/ms-swift/issues/6695",
    ),
    Entry(
        id="file-lock",
        title="No locks available; Bad file descriptor in flock",
        patterns=(
            r"\[Errno (?:37|77)\] No locks available",
            r"\[Errno 9\] Bad file descriptor",
            r"Timeout: The file lock '(?P<path>[^']+)' could not be acquired",
            r"sqlite3\.OperationalError: database is locked",
            r"\[Errno 38\] Function not implemented",
            r"\[Errno 11\] Resource temporarily unavailable: '(?P<path>[^']*)'",
        ),
        explains=("own-exception", "cannot-fork"),
        needs=r"unable to lock file|\b(?:fcntl\.|_)?(?:flock|lockf)\b|[Ff]ile_?[Ll]ock|\.lock\b|No locks available|database is locked|unavailable: '",
        cause="the file system does not support this lock of a file: NFS without its lock service, NFS with a file "
        "open for reading, or Lustre mounted without `flock`. Or another process holds it (errno 11)",
        probe="df -T of the path in the traceback; mount | grep -E 'nfs|lustre'",
        fix="move the cache, the database or the lock file to a local disk: export HF_HOME=/tmp/$USER/hf "
        "TORCH_EXTENSIONS_DIR=/tmp/$USER/ext. Delete a .lock file that a killed run has left. For HDF5: HDF5_USE_FILE_LOCKING=FALSE, or open it once. As administrator: mount Lustre with -o flock, or start rpc.statd",
        instead=(Instead(of=("cannot-fork", "file-operation-unsupported"), near=r"\b(?:flock|lockf)\("),),
        link="https://man7.org/linux/man-pages/man2/flock.2.html",
    ),
    Entry(
        id="stale-handle",
        title="Stale file handle",
        patterns=(r"Stale (?:NFS )?file handle",),
        explains=("library-missing",),
        cause="another host replaced or deleted a file on a shared file system while this host had it open",
        probe="on that host: mount | grep nfs",
        fix="start again. Write to a new name and rename the file; as administrator, mount it again",
        action="exclude",
        reason="the host lost a network file system",
        link="https://man7.org/linux/man-pages/man5/nfs.5.html",
    ),
    Entry(
        id="read-only-fs",
        title="Read-only file system",
        patterns=(r"Read-only file system",),
        cause="the file system is mounted read-only. It belongs to a container image, or the kernel remounted it after "
        "disk errors",
        probe="mount | grep ' ro[ ,]'; dmesg -T | tail",
        fix="write to a mounted directory (containers: a bind mount; apptainer: --writable-tmpfs; pyxis: --container-writable), or report the disk "
        "to the administrators",
        action="exclude",
        reason="a file system of the host is read-only",
        link="https://apptainer.org/docs/user/latest/bind_paths_and_mounts.html",
    ),
    Entry(
        id="stage-failed",
        title="cannot stage in ...; the copy needs ... MB",
        patterns=(
            r"ddpkit: error: (?P<host>\S+): cannot (?:stage in|complete) (?P<path>\S+): .",
            r"ddpkit: error: (?P<host>\S+): cannot copy \S+ to (?P<path>\S+): (?!no such file)",
            r"ddpkit: error: (?P<host>\S+): (?P<path>\S+) has \d+ MB and \d+ files free; the copy needs ",
        ),
        explains=("disk-full", "read-only-fs", "io-error", "quota"),
        cause="{host|a node} cannot have a copy of the project in {path}",
        probe="[ssh {host} ]df -h {path}",
        fix="add --stage-dir DIR, with a local disk that has room",
        action="exclude",
        reason="the local disk of the host cannot have a copy of the project",
        link="https://man7.org/linux/man-pages/man1/df.1.html",
    ),
    Entry(
        id="stage-changed",
        title="the copy differs from its source: a file changed meanwhile",
        patterns=(
            r"ddpkit: error: (?P<host>\S+): the copy differs from its source",
            r"ddpkit: error: (?P<host>\S+): cannot copy (?P<path>\S+) to \S+: no such file",
        ),
        cause="[{path}: ]a file of the project changed, or was removed, after the launch",
        probe="git status; ls -lt | head",
        fix="launch again; change no file until the ranks run",
        link="https://man7.org/linux/man-pages/man1/rsync.1.html",
    ),
    Entry(
        id="io-error",
        doubtful=True,
        title="Input/output error; Transport endpoint is not connected",
        patterns=(
            r"\[Errno 5\] Input/output error",
            r"^(?!.*(?:tcsetattr|tcgetattr|ioctl|stty)).*: Input/output error$",
            r"Transport endpoint is not connected",
            r"Cannot send after transport endpoint shutdown",
            r"\[Errno 121\] Remote I/O error",
            r"\[Errno 112\] Host is down",
            r"\[Errno 70\] Communication error on send",
            r"\bLustreError: \d",
            r"(?:(?P<call>write)|read)\(\): fd \d+ failed with (?:Input/output|Remote I/O) error",
        ),
        explains=("own-exception",),
        cause="a disk or a network file system does not answer[, or takes no more data ({call} failed): it is full or over a quota]",
        probe="on that host: dmesg -T | tail -50; df -h; df -i; mount",
        fix="[free space where this {call} goes, if it is full or over a quota (quota -s). Otherwise ]mount the file system again, or exclude the node",
        action="exclude",
        reason="a file system of the host does not answer",
        link="https://man7.org/linux/man-pages/man3/errno.3.html",
    ),
    Entry(
        id="too-many-files",
        title="Too many open files; received 0 items of ancdata",
        patterns=(
            r"Too many open files",
            r"received 0 items of ancdata",
            r"system limit exceeded on number of (?:pipes|network connections|files) that can be open",
            r"unable to open shared memory object </torch_\S+> in read-write mode: Too many",
        ),
        cause="a process reached its limit of open files. Each batch that a DataLoader worker passes on uses several",
        probe="ulimit -n, started the same way; ls /proc/PID/fd | wc -l",
        fix="ulimit -n 65536 before the start, or torch.multiprocessing.set_sharing_strategy('file_system')",
        link="https://github.com/pytorch/pytorch/issues/973",
    ),
    Entry(
        id="cannot-fork",
        title="Resource temporarily unavailable; can't start new thread",
        patterns=(
            r"fork: (?:retry: )?Resource temporarily unavailable",
            r"can't start new thread",
            r"cannot start (?:any|all) ranks?: Resource temporarily unavailable",
            r"\[Errno 11\] Resource temporarily unavailable",
            r"pthread_create failed.*Resource temporarily unavailable",
            r"RuntimeError: Resource temporarily unavailable$",
            r"what\(\): +(?:thread: )?Resource temporarily unavailable",
            r"(?:RuntimeError|system_error): (?:thread constructor failed: )?Resource temporarily unavailable",
            r"Failed to start worker with return value system:11",
            r"node had condition: \[PIDPressure\]",
            r"OpenBLAS blas_thread_init: pthread_create failed",
            r"libgomp: Thread creation failed",
            r"OMP: Error #\d+: System unable to allocate necessary resources",
        ),
        explains=("ray-node-not-started", "ray-actor-died"),
        cause="the limit on processes and threads is reached (ulimit -u, or pids.max of the cgroup)",
        probe="ulimit -u; cat /sys/fs/cgroup/pids.max; ps -eLf | wc -l",
        fix="export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1, or fewer DataLoader workers. In docker: "
        "--pids-limit=-1. For Ray, which starts a process for each core: ray start --num-cpus=N",
        link="https://man7.org/linux/man-pages/man2/fork.2.html",
    ),
    Entry(
        id="file-missing",
        doubtful=True,
        title="FileNotFoundError: [Errno 2] No such file or directory",
        patterns=(
            r"FileNotFoundError: \[Errno 2\] No such file or directory: "
            r"'(?!\S+/bin/nvcc'|(?:\S*/)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+)')(?P<path>[^']*)'",
            r"\bcd: (?P<path>[^:]+): No such file or directory",
            r"mkdir \"(?P<path>[^\"]+)\" failed: No such file",
            r"cannot be found at the path prefix (?P<path>\S+)",
            r"images not found, missing path '(?P<path>[^']+)'",
            r"Checkpoint at (?P<path>\S+) not found\. Aborting training",
            r"unable to open file: name = '(?P<path>[^']+)', errno = 2",
            r"lmdb\.Error: (?P<path>.+): No such file or directory$",
            r"Exception: No such file or directory \(os error 2\)",
            r"unable to open file <(?P<path>[^>]+)> in read-only mode: No such file",
            r"Failed to open local file '(?P<path>[^']+)'.*\[errno 2\]",
            r"The provided dataset path `(?P<path>[^`]+)` does not exist",
            r"FileNotFoundError: No such file or directory: \"(?P<path>[^\"]+)\"",
            r"\[WinError [23]\] [^:]+: '(?P<path>[^']*)'",
        ),
        cause="{path} does not exist on this host. The working directory differs, the path is not mounted, or rank 0 "
        "has not written the file yet",
        probe="on that host, the same way: ls -l {path}; pwd",
        fix="use full paths on a shared file system. Let the other ranks wait at a barrier for files that rank 0 "
        "writes",
        link="https://docs.python.org/3/library/exceptions.html#FileNotFoundError",
    ),
    Entry(
        id="permission-denied",
        doubtful=True,
        title="PermissionError: [Errno 13] Permission denied",
        patterns=(
            r"\[Errno 13\] Permission denied(?:: '(?P<path>[^']*)')?",
            r"\[Errno 1\] Operation not permitted",
            r"lmdb\.\w+: (?P<path>.+): Permission denied$",
            r"what\(\): +open\((?P<path>[^)]+)\): Permission denied",
            r"unable to open file: name = '(?P<path>[^']+)', errno = 13",
            r"\[WinError (?:5|32)\] [^:]+: '(?P<path>[^']*)'",
            r"(?:cannot|failed to) (?:create|remove|open|access|touch|stat|statx|read|move|make) (?:\w+ ){0,2}['‘](?P<path>(?!/run/)[^'’]+)['’](?: for \w+)?: Permission denied",
            # A redirection of a shell: dash says `cannot create`, bash names the file alone.
            r"\b(?:[bdkz]?a?sh|busybox)\b.*: cannot create (?P<path>[^\s:]+): Permission denied",
            r"\b(?:[bdkz]?a?sh): (?:line \d+: |\d+: )?(?P<path>/(?:etc|proc|sys|dev)/[^\s:]+): Permission denied$",
            r"(?:^|: )(?P<path>[^\s:]+\.(?:log|txt|out|err|conf|cfg|json|ya?ml|pid|csv|env)): Permission denied$",
            r"\btar(?: \(child\))?: (?P<path>[^\s:]+): Cannot open: Permission denied",
            # A program that reads or writes files names the file alone, as a shell names a program.
            r"\b(?:z?cat|zstd|unzstd|pigz|g(?:un)?zip|bzip2|xz|lz4|tar|tee|head|tail|wc|find|[ef]?grep|sed|g?awk|sort|cut|diff"
            r"|(?:md5|sha\d+)sum|dd|cp|mv|ln|ls|du|rm|mkdir|touch|chmod|chown|wget|curl|cpio|(?:un|mk)squashfs)(?:\.exe)?: "
            r"(?:can't read )?['‘]?(?P<path>[^\s:'’]*/[^\s:'’]+)['’]?: Permission denied",
            r"rsync: .*failed: Permission denied \(13\)",
            r"rsync: .*failed to open \"(?P<path>[^\"]+)\": Permission denied \(13\)",
            r"(?:write|read)\(\): fd \d+ failed with Permission denied",
        ),
        explains=("not-executable",),
        cause="this user cannot read or write {path|a file}. Another user owns it, for example a shared cache. Or a container does "
        "not run as root, as on OpenShift",
        probe="[ls -ld {path}; ]id",
        fix="let its owner change the mode, or use another directory (TMPDIR, HF_HOME, "
        "TRITON_CACHE_DIR, ENROOT_CACHE_PATH). In a pod: securityContext, or a writable volume",
        link="https://docs.python.org/3/library/exceptions.html#PermissionError",
    ),
    Entry(
        id="dangling-link",
        title="FileExistsError for a directory, then FileNotFoundError for a directory in it",
        patterns=(r"FileExistsError: \[Errno 17\] File exists: '(?P<path>[^']*)'",),
        # A file that another rank has not written yet has a suffix. A directory that cannot be made has none.
        needs=r"No such file or directory: '(?P=path)/+[^'./]+'",
        explains=(
            "file-exists-race",
            "file-missing",
        ),
        cause="{path} is a symbolic link to a directory that does not exist on this host. Perhaps that directory is not "
        "mounted into the container",
        probe="on that host, in the same container: ls -ld {path}; readlink -f {path}",
        fix="mount the directory to which the link points (--container-mounts, -v, --bind), or "
        "replace the link by a directory: readlink {path}",
        link="https://man7.org/linux/man-pages/man7/symlink.7.html",
    ),
    Entry(
        id="file-exists-race",
        title="FileExistsError: several ranks create the same directory",
        patterns=(
            r"FileExistsError: \[Errno 17\] File exists: '(?P<path>[^']*)'",
            r"unable to open file: name = '(?P<path>[^']+)', errno = 17",
        ),
        cause="two ranks created {path} at the same time, or it remains from an earlier run",
        probe="ls -ld {path}",
        fix="os.makedirs(path, exist_ok=True), or create it on rank 0 only and add a barrier",
        link="https://docs.python.org/3/library/os.html#os.makedirs",
    ),
    Entry(
        id="dataloader-worker-died",
        title="DataLoader worker (pid(s) ...) exited unexpectedly",
        kind="generic",
        patterns=(
            r"DataLoader worker \(pid\(s\) (?P<pid>[\d, ]+)\) exited unexpectedly",
            r"DataLoader worker \(pid \d+\) is killed by signal: (?!Bus|Killed|Segm|Term)",
            r"DataLoader worker \(pid \d+\) exited unexpectedly with exit code",
        ),
        cause="a DataLoader worker ended. Its own error is above this line, or the kernel killed it because memory was "
        "full. One that aborted did so in compiled code: a decoder, OpenCV, or a fork after threads had started",
        probe="dmesg -T | grep -i 'killed process'; repeat with num_workers=0",
        fix="run with num_workers=0 to see the error itself. If the worker was killed, use fewer workers. If it aborted, try "
        "multiprocessing_context='spawn', and cv2.setNumThreads(0) where OpenCV is used",
        action="retry",
        reason="a DataLoader worker died without a reason",
        link="https://docs.pytorch.org/docs/stable/data.html",
    ),
    Entry(
        id="dataloader-timeout",
        title="DataLoader timed out after N seconds",
        patterns=(r"DataLoader timed out after (?P<seconds>[\d.]+) seconds",),
        cause="the workers delivered no batch in time. The file system is slow, or a lock was held at the fork",
        probe="py-spy dump -p PID of a worker",
        fix="use a longer timeout, more workers, or multiprocessing_context='spawn'",
        action="retry",
        reason="a DataLoader worker did not answer in time",
        link="https://docs.pytorch.org/docs/stable/data.html",
    ),
    Entry(
        id="cannot-pickle",
        title="Can't pickle local object; cannot pickle '...' object",
        patterns=(
            r"Can't (?:pickle|get) local object '?(?P<object>[\w.<>]+)",
            r"cannot pickle '(?P<object>[\w.]+)' object",
            r"Can't pickle <\w+ ['<]?(?P<object>[\w.]+)",
            r"Can't get attribute '(?P<object>\w+)' on <module '__main__'",
            r"TypeError: (?P<object>h5py objects) cannot be pickled",
        ),
        cause="{object} cannot be pickled, which sends it to another process or saves it. Lambdas, nested functions, hooks of a "
        "model, open files, and classes of a script that is not imported cannot be pickled",
        probe="python -c 'import pickle' and pickle.dumps(dataset)",
        fix="define it at the top level of a module, and open files inside the worker. To save a model: "
        "torch.save(model.state_dict(), FILE), without its hooks",
        link="https://docs.python.org/3/library/pickle.html#what-can-be-pickled-and-unpickled",
    ),
    Entry(
        id="spawn-without-main",
        title="An attempt has been made to start a new process before the current process has finished its bootstrapping phase",
        patterns=(
            r"An attempt has been made to start a new process before the$",
            r"current process has finished its bootstrapping phase",
        ),
        cause="the script starts processes while it is imported. With `spawn`, each process imports the script again",
        probe="grep -n '__main__' train.py",
        fix="start the processes below `if __name__ == '__main__':`",
        link="https://docs.python.org/3/library/multiprocessing.html#the-spawn-and-forkserver-start-methods",
    ),
    Entry(
        id="tokenizers-fork",
        title="huggingface/tokenizers: The current process just got forked, after parallelism has already been used",
        kind="noise",
        patterns=(r"The current process just got forked, after parallelism has already been used",),
        cause="tokenizers continues without threads in the worker",
        probe="nothing to check",
        fix="nothing to do, or export TOKENIZERS_PARALLELISM=false",
        link="https://github.com/huggingface/transformers/issues/5486",
    ),
    Entry(
        id="omp-warning",
        title="Setting OMP_NUM_THREADS environment variable for each process to be 1",
        kind="noise",
        patterns=(r"Setting OMP_NUM_THREADS environment variable for each process",),
        cause="torchrun sets one thread per rank by default. This is slow on CPUs and harmless on GPUs",
        probe="echo $OMP_NUM_THREADS in a rank",
        fix="nothing to do, or export OMP_NUM_THREADS. ddpkit launch sets it to cores divided by ranks",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="leaked-semaphores",
        title="resource_tracker: There appear to be N leaked semaphore objects",
        kind="noise",
        patterns=(r"resource_tracker: There appear to be \d+ leaked", r"resource_tracker: '\S+': \[Errno 2\]"),
        cause="a process was ended before it could clean up. This is at most a consequence",
        probe="nothing to check",
        fix="nothing to do",
        link="https://docs.python.org/3/library/multiprocessing.shared_memory.html",
    ),
    Entry(
        id="import-warnings",
        title="Failed to load image Python extension; Could not load dynamic library",
        kind="noise",
        patterns=(
            r"Failed to load image Python extension",
            r"Could not load dynamic library '",
            r"Unable to register cu\w+ factory",
            r"TF-TRT Warning: Could not find TensorRT",
            r"cannot find -l(?:aio|cufile)\b",
            r"IPv6 network addresses of \(localhost, \d+\) cannot be retrieved",
            r"libibverbs: Warning: couldn't load driver",
            r"which: no (?:hipcc|nvcc|ninja) in",
            r"(?:lsb_release|rocm-smi|rocminfo|hipconfig): (?:command )?not found",
            r"requires the dev libaio",
            r"is missing or is incompatible with installed torch, only cpu ops can be compiled",
            r"entering retry loop",
            r"wandb: Network error resolved",
            r"fatal: not a git repository",
            r"fatal: detected dubious ownership",
            r"df: .*\.triton/autotune",
            r"is not a symbolic link$",
            r"ERROR: ld\.so: object '.*' from LD_PRELOAD cannot be preloaded",
            r"Importing \w+ failed\. .* will not work",
            r"pip's dependency resolver does not currently take into account",
        ),
        cause="a library found an optional part missing, and continues without it. This is harmless",
        probe="nothing to check",
        fix="nothing to do",
        link="https://github.com/pytorch/vision/issues/7296",
    ),
    Entry(
        id="no-destroy-warning",
        title="process group has NOT been destroyed before we destruct ProcessGroupNCCL",
        kind="noise",
        patterns=(
            r"process group has NOT been destroyed before",
            r"destroy_process_group\(\) was not called before program exit",
        ),
        cause="the script did not call destroy_process_group at its end. This is harmless",
        probe="nothing to check",
        fix="call torch.distributed.destroy_process_group() at the end of the script",
        link="https://docs.pytorch.org/docs/stable/distributed.html#shutdown",
    ),
    Entry(
        id="broken-pipe",
        title="BrokenPipeError; EOFError in a worker process",
        kind="consequence",
        patterns=(
            r"\[Errno 32\] Broken pipe",
            r"ConnectionResetError: \[Errno 104\]",
            r"ConnectionRefusedError: \[Errno 111\] Connection refused",
            r"(?:^|[\]:] )\bEOFError$",
        ),
        cause="the process at the other end of a pipe has ended",
        probe="read the lines before it",
        fix="find the process that ended first",
        link="https://docs.python.org/3/library/exceptions.html#BrokenPipeError",
    ),
    Entry(
        id="home-not-writable",
        title="PermissionError: [Errno 13] Permission denied: '/.cache'",
        patterns=(
            r"\[Errno 13\] Permission denied: '(?P<path>/\.(?:cache|config|local|triton|huggingface|netrc|nv|keras|matplotlib)[^']*)'",
        ),
        explains=("permission-denied",),
        cause="the process has no home directory: HOME is `/`, so a cache would be {path}. In a container, the user ID has no "
        "entry in /etc/passwd",
        probe="in the container: id; echo $HOME",
        fix="export HOME=/tmp/home (a directory that this user can write to), or HF_HOME, XDG_CACHE_HOME, TRITON_CACHE_DIR and "
        "TORCHINDUCTOR_CACHE_DIR one by one",
        link="https://github.com/opendatahub-io/ilab-on-ocp/pull/26",
    ),
    Entry(
        id="nfs-file-busy",
        doubtful=True,
        title="Device or resource busy: '.nfs000000000...'",
        patterns=(r"\[Errno 16\] Device or resource busy: '(?P<path>[^']*\.nfs\w+)'",),
        cause="a directory on NFS was deleted while a process still has a file in it open. NFS keeps that file as {path}",
        probe="df -T of the directory; lsof {path}",
        fix="use a local disk for temporary files: export TMPDIR=/tmp. At the end of a run this is harmless",
        link="https://nfs.sourceforge.net/#faq_d2",
    ),
    Entry(
        id="socket-path-too-long",
        title="AF_UNIX path too long",
        patterns=(r"AF_UNIX path (?:length )?(?:is )?(?:too long|cannot exceed)",),
        cause="a socket's path has a limit of about 107 characters, and the temporary directory's name is too long for it",
        probe="echo $TMPDIR",
        fix="export TMPDIR=/tmp (ray: --temp-dir=/tmp/ray)",
        link="https://man7.org/linux/man-pages/man7/unix.7.html",
    ),
    Entry(
        id="start-method-twice",
        title="RuntimeError: context has already been set",
        patterns=(r"RuntimeError: context has already been set$",),
        cause="the script sets the start method of multiprocessing a second time, or after something has used it",
        probe="grep -rn set_start_method .",
        fix="call set_start_method once, below `if __name__ == '__main__':`, or with force=True. For a DataLoader alone: "
        "multiprocessing_context='spawn'",
        link="https://docs.python.org/3/library/multiprocessing.html#multiprocessing.set_start_method",
    ),
    Entry(
        id="worker-with-children",
        title="AssertionError: daemonic processes are not allowed to have children",
        patterns=(r"daemonic processes are not allowed to have children",),
        cause="a worker (of a DataLoader or a Pool) starts processes of its own, which Python does not permit",
        probe="the frames of the traceback show which call starts them",
        fix="num_workers=0 for the loader inside of the worker, or threads there. Or start the outer processes with "
        "daemon=False (mp.spawn does)",
        link="https://docs.python.org/3/library/multiprocessing.html#multiprocessing.Process.daemon",
    ),
    Entry(
        id="hook-not-pickled",
        title="Can't pickle local object 'DeepSpeedEngine._create_module_forward_post_hook.<locals>...'",
        patterns=(
            r"Can't pickle local object '(?P<object>(?:DeepSpeed\w*|PreTrainedModel|Accelerator|FullyShardedDataParallel)\.[\w.<>]+)",
        ),
        explains=("cannot-pickle",),
        cause="the DataLoader's workers start with `spawn` or `forkserver`, and the data set or collator holds the model. Its "
        "hook {object} cannot be sent to them",
        probe="grep -rnE 'multiprocessing_context|set_start_method' .; pip show deepspeed",
        fix="num_workers=0 (--dataloader_num_workers 0), or the start method fork. Keep the model out of data set and "
        "collator. With deepspeed 0.17: pip install 'deepspeed<0.17'",
        link="https://github.com/hiyouga/LlamaFactory/issues/8346",
    ),
    Entry(
        id="compile-cache-shared",
        title="Stale file handle, or FileNotFoundError, in .triton/cache or torchinductor",
        explains=("shared-cache", "stale-handle", "file-missing", "compile-failed", "library-missing"),
        patterns=(
            r"No such file or directory: '(?P<path>[^']*(?:\.triton/cache|/torchinductor_[^/']+))/",
            r"(?P<path>[^\s':]*(?:\.triton/cache|/torchinductor_[^/\s]+))/\S*: .*Stale (?:NFS )?file handle",
            r"Stale (?:NFS )?file handle: '(?P<path>[^']*(?:\.triton/cache|/torchinductor_[^/']+))/",
            r"Directory not empty: '(?P<path>[^']*(?:\.triton/cache|/torchinductor_[^/']+))/",
            r"Device or resource busy: '(?P<path>[^']*(?:\.triton/cache|/torchinductor_[^/']+))/",
            r"No such file or directory: '(?P<path>[^']*triton[^']*)/[A-Z2-7]{40,}/",
        ),
        cause="several ranks or nodes compile into one cache, {path}, on a shared file system. One replaced or deleted a "
        "file that another one was about to use",
        probe="df -T {path}; env | grep -E 'TRITON_CACHE_DIR|TORCHINDUCTOR_CACHE_DIR'",
        fix="use a cache on a local disk of each node: export TRITON_CACHE_DIR=/tmp/triton-$USER "
        "TORCHINDUCTOR_CACHE_DIR=/tmp/inductor-$USER. Then start again",
        action="retry",
        reason="ranks compiled into one cache at the same time",
        link="https://github.com/triton-lang/triton/issues/2688",
    ),
    Entry(
        id="dcp-incomplete",
        title="No such file or directory: '.../step-1000/.metadata'",
        explains=("file-missing",),
        patterns=(
            r"No such file or directory: '(?P<path>[^']*)/\.metadata'",
            r"No such file or directory: '(?P<path>[^']*)/__\d+_\d+\.distcp'",
            r"assert metadata is not None$",
            r"AssertionError: (?:self\.)?metadata is not None",
        ),
        cause="the checkpoint[ in {path}] is incomplete on this host. Its save was interrupted, as .metadata is written "
        "last, or each node saved to its own disk",
        probe="on each host: ls -la {path}; df -T {path}",
        fix="resume from the checkpoint before it, and delete this one. Save to a file system that all nodes share",
        link="https://github.com/awslabs/awsome-distributed-ai/issues/190",
    ),
    Entry(
        id="map-limit",
        title="unable to mmap 32 bytes from file </torch_...>: Cannot allocate memory (12)",
        patterns=(
            r"unable to mmap \d+ bytes from file <(?:/torch_\w+|filename not specified)>: Cannot allocate memory",
        ),
        explains=("shm-full",),
        cause="the kernel refused one more mapping of shared memory. The process has as many as vm.max_map_count permits (65530 by "
        "default), or the memory of the host or the container is used up. /dev/shm itself is not full",
        probe="of a rank: wc -l /proc/PID/maps; sysctl vm.max_map_count; free -g",
        fix="fewer workers, a smaller prefetch_factor, and few large tensors in a sample in place of many small ones. Copy what is "
        "kept of a batch (copy.deepcopy). As administrator: sysctl -w vm.max_map_count=1048576",
        link="https://github.com/pytorch/pytorch/issues/92134",
    ),
    Entry(
        id="windows-paging-file",
        title="[WinError 1455] The paging file is too small for this operation to complete",
        patterns=(
            r"\[WinError 1455\]",
            r"The paging file is too small for this operation",
            r"Couldn't open shared file mapping: <[^>]*>, error code: <1455>",
        ),
        cause="Windows has no more memory to commit: RAM and paging file are used up. Each DataLoader worker and each rank loads "
        "torch again, with some GB for its CUDA libraries",
        probe="Task Manager > Performance > Memory: Committed",
        fix="use fewer workers (num_workers=0 to test), fewer ranks and a smaller batch. Or enlarge the paging file: System > Advanced "
        "> Performance > Virtual memory",
        link="https://github.com/ultralytics/yolov3/issues/1643",
    ),
    Entry(
        id="wandb-process-ended",
        # Found by the place that raised the error: see ddpkit.diagnosis.log_reader.
        title="BrokenPipeError or ConnectionResetError in wandb/sdk",
        kind="consequence",
        cause="wandb's own process on this host has ended, so that nothing more is sent to its server. It was killed, as the host's "
        "memory was full, or the end of the run ended it first",
        probe="the end of wandb/debug-core.log and wandb/debug-internal.log; dmesg -T | grep -i 'killed process'",
        fix="find what ended it: more host memory, or pip install -U wandb. To train without it: export WANDB_MODE=offline. In a "
        "thread (NetStatThr), the training itself continues",
        instead=(Instead(of=("broken-pipe",), near="/wandb/sdk/"),),
        link="https://github.com/wandb/wandb/issues/6449",
    ),
    Entry(
        id="dcp-error-hidden",
        kind="generic",
        title="TypeError: cannot pickle code objects, in torch.distributed.checkpoint",
        patterns=(r"TypeError: cannot pickle code objects",),
        needs=r"/torch/distributed/checkpoint/",
        cause="a rank failed while it loaded or saved a checkpoint, and its error could not be sent to the other ranks. The error itself "
        "is hidden: usually a key that the checkpoint does not have",
        probe="python -c 'from torch.distributed.checkpoint import FileSystemReader as R; "
        'print(*R("CHECKPOINT").read_metadata().state_dict_metadata, sep="\\n")\' | head',
        fix="compare these names with those of the model and the optimizer. Resume with the versions and the wrapper of the run that "
        "saved, or load the model alone and begin with a new optimizer",
        link="https://github.com/huggingface/accelerate/issues/3896",
    ),
    Entry(
        id="composer-signal-file",
        title="No such file or directory: '._signal_file_node0_QVBHXW'",
        patterns=(
            r"No such file or directory: '(?P<path>[^']*\._signal_file_node\d+_\w+)'",
            r"No such file or directory: '(?P<path>[^']*\.node_\d+_local_rank0_completed\w*)'",
        ),
        explains=("file-missing",),
        cause="composer's ranks wait for a file that local rank 0 of each node writes and then deletes. Another node with the same "
        "NODE_RANK deleted it, or the shared file system shows it late",
        probe="on each node: echo $NODE_RANK $LOCAL_RANK; df -T .",
        fix="give each node its own NODE_RANK (composer --node_rank N), and start in a directory on a local disk of the node. Then "
        "start again",
        link="https://github.com/mosaicml/llm-foundry/issues/1848",
    ),
    Entry(
        id="dataloader-thread-lost-worker",
        kind="hint",
        title="ConnectionResetError or EOFError in _pin_memory_loop or rebuild_storage_fd",
        patterns=(
            r"\[Errno 32\] Broken pipe",
            r"ConnectionResetError: \[Errno 104\]",
            r"ConnectionRefusedError: \[Errno 111\] Connection refused",
            r"(?:^|[\]:] )\bEOFError$",
        ),
        needs=r"in _pin_memory_loop|in rebuild_storage_fd|in _shutdown_workers",
        cause="a thread of the DataLoader read from a worker that had ended. At the end of a run or of a loop that stops early, this "
        "is harmless. Otherwise a worker died",
        probe="does the log continue? If not: the lines above, and dmesg -T | grep -i 'killed process'",
        fix="if training continues, nothing. To avoid it: persistent_workers=True, or del the iterator before the end. If it ends "
        "here: num_workers=0 shows a worker's error, and fewer workers need less memory",
        link="https://github.com/pytorch/pytorch/issues/9127",
    ),
    Entry(
        id="dataloader-deleted-in-child",
        kind="noise",
        title="AssertionError: can only test a child process",
        patterns=(r"AssertionError: can only test a child process",),
        cause="a forked process deleted a DataLoader of its parent. Python ignores this exception, and so does the run",
        probe="nothing to check",
        fix="nothing to do. To avoid it: del the iterator before another DataLoader starts its workers",
        link="https://github.com/huggingface/transformers/issues/8822",
    ),
    Entry(
        id="removed-twice",
        # Of `file-missing`, the code above it decides: see ddpkit.diagnosis.log_reader.
        title="FileNotFoundError in os.remove, os.rename or shutil.rmtree",
        patterns=(
            r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<path>(?![^']*tmp-checkpoint)[^']*)' -> '",
        ),
        explains=("file-missing",),
        cause="this rank removes or moves [{path}, ]a file that another rank removed or moved a moment earlier. Several ranks "
        "save to one directory at the same time",
        probe="the traceback shows the call; grep -n 'is_main_process\\|should_save\\|RANK' of the script near it",
        fix="save, rotate and delete checkpoints on rank 0 alone (`if rank == 0:`; transformers: args.should_save; accelerate: "
        "is_main_process), and let the others wait in a barrier",
        instead=(
            Instead(
                of=("file-missing",),
                near=r"\b(?:os\.(?:remove|unlink|rmdir|rename|replace)|shutil\.(?:rmtree|move)|\.unlink)\(",
            ),
        ),
        link="https://github.com/bigcode-project/starcoder/issues/155",
    ),
    Entry(
        id="save-directory-missing",
        title="RuntimeError: Parent directory checkpoints/d20 does not exist, in torch.save",
        patterns=(r"Parent directory (?P<path>\S+) does not exist",),
        cause="a rank saves to {path}, which does not exist on this host. It was never made; or rank 0 makes it, later than this rank "
        "saves or on the disk of its own node only",
        probe="on that host, the same way: ls -ld {path}; pwd",
        fix="call os.makedirs(directory, exist_ok=True) on every rank before torch.save, or save on rank 0 only. Use a full path on "
        "a file system that all nodes share",
        link="https://github.com/karpathy/nanochat/issues/315",
    ),
    Entry(
        id="pin-thread-died",
        title="Pin memory thread exited unexpectedly",
        kind="generic",
        patterns=(r"Pin memory thread exited unexpectedly",),
        cause="the DataLoader's thread that pins batches has ended. Its own exception is above this line. Mostly a worker "
        "could not pass a batch to it: too many files are open, /dev/shm or memory is full, or persistent workers ended",
        probe="ulimit -n; df -h /dev/shm; free -g; repeat with num_workers=0",
        fix="torch.multiprocessing.set_sharing_strategy('file_system') at the start of the script, and `ulimit -n 65536`. "
        "Otherwise DataLoader(..., pin_memory=False), or persistent_workers=False",
        link="https://github.com/pytorch/pytorch/issues/47445",
    ),
    Entry(
        id="file-too-large",
        title="OSError: [Errno 27] File too large; File size limit exceeded",
        patterns=(
            r"\[Errno 27\] File too large",
            r"\bfd \d+ failed with File too large",
            r"\bFile size limit exceeded\b",
        ),
        explains=("checkpoint-not-written",),
        cause="a file grew larger than this process may write (ulimit -f), or than its file system allows: FAT32 ends at 4 GB",
        probe="ulimit -f, started the same way (by ssh, srun); df -T of the file's directory",
        fix="ulimit -f unlimited, or `* - fsize unlimited` in /etc/security/limits.conf. Otherwise write to another file system, "
        "or save in several files (max_shard_size)",
        link="https://man7.org/linux/man-pages/man2/setrlimit.2.html",
    ),
    Entry(
        id="fuse-mount-lost",
        doubtful=True,
        title="OSError: [Errno 107] Transport endpoint is not connected: '/mnt/bucket/data'",
        patterns=(
            r"\[Errno 107\] Transport endpoint is not connected: '(?P<path>/[^']*)'",
            r"(?:cannot (?:access|stat|open)|stat|access|ls:|mkdir:|df:) ['‘]?(?P<path>/[^'’:]+)['’]?: Transport endpoint is not connected",
            r"\bfailed to access mountpoint (?P<path>/[^:]+): Transport endpoint is not connected",
        ),
        explains=("io-error", "own-exception", "file-missing"),
        cause="the program that mounts the file system of {path} has ended: gcsfuse, s3fs, goofys, JuiceFS, sshfs, GlusterFS or another one of "
        "FUSE. Usually it crashed, or was killed as its memory was full",
        probe="on that host: mount | grep fuse; dmesg -T | grep -i 'killed process'; in Kubernetes: kubectl logs POD -c gke-gcsfuse-sidecar",
        fix="fusermount -u the mount point, and mount it again. Give that program more memory (a sidecar: its memory limit), or copy the "
        "data to a local disk before the run",
        link="https://github.com/GoogleCloudPlatform/gcsfuse/blob/master/docs/troubleshooting.md",
    ),
)
