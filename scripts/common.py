"""What several scripts here have in common: how they end, files that are written whole, and where a figure was
measured: commit, machine and date, for the tables of docs/."""
import contextlib
import csv
import datetime
import importlib.util
import io
import os
import shlex
import shutil
import signal
import subprocess
import sys

# ---- the end of a script ----

def stop(code, message):
    """Ends the script with one line and an exit code of docs/scripting.md."""
    print(f"{os.path.splitext(os.path.basename(sys.argv[0]))[0]}: {message}", file=sys.stderr)
    sys.exit(code)


def need(packages, *programs):
    """Ends the script where a program is missing, before the work that it is needed for."""
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        stop(4, f"no {', '.join(missing)}: apt install {packages}")


def need_files(how, *paths):
    """The same of a file, with how it is made."""
    for path in paths:
        if not os.access(path, os.R_OK):
            stop(4, f"no {path}: {how}")


def need_modules(how, *modules):
    """The same of Python's packages."""
    missing = [module for module in modules if not importlib.util.find_spec(module)]
    if missing:
        stop(4, f"needs {', '.join(missing)}: {how}")


def end_with(main):
    """Runs main and exits with what it returns. An OSError, or a command that fails (it has printed why), ends the script
    with one line. Ctrl-C and SIGTERM raise an exception, so that temporary files are removed."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        code = main()
        sys.stdout.flush()
        sys.exit(code)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:  # into head, for instance
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except subprocess.CalledProcessError as error:
        stop(error.returncode if error.returncode in (2, 3, 4) else 4, f"exit {error.returncode}: {shlex.join(error.cmd)[:200]}")
    except OSError as error:
        stop(4, f"{error.filename}: {error.strerror}" if error.filename else error.strerror)


# ---- files ----

def write_whole(path, text):
    """In one move: a script that is killed, or finds the disk full, leaves the old file or the new one."""
    if os.path.exists(path) and not os.path.isfile(path):  # a device, for instance
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    path = os.path.realpath(path)
    try:
        with open(path + ".part", "w", encoding="utf-8") as file:
            file.write(text)
        if os.path.exists(path):
            shutil.copymode(path, path + ".part")
        os.replace(path + ".part", path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path + ".part")


def write_rows(path, columns, rows):
    """Dictionaries as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue())


# ---- where a figure was measured ----

SETS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimd")
# What a hypervisor hides of a CPU's name: microarchitectures by vendor, family and models.
GENERATIONS = [
    ("AuthenticAMD", 23, range(0x30, 0xa0), "Zen 2"), ("AuthenticAMD", 25, range(0x00, 0x10), "Zen 3"),
    ("AuthenticAMD", 25, range(0x20, 0x60), "Zen 3"), ("AuthenticAMD", 25, range(0x10, 0x20), "Zen 4"),
    ("AuthenticAMD", 25, range(0x60, 0xb0), "Zen 4"), ("AuthenticAMD", 26, range(0x00, 0x80), "Zen 5"),
    ("GenuineIntel", 6, (85,), "Skylake or Cascade Lake"), ("GenuineIntel", 6, (106, 108), "Ice Lake"),
    ("GenuineIntel", 6, (143,), "Sapphire Rapids"), ("GenuineIntel", 6, (207,), "Emerald Rapids"),
    ("GenuineIntel", 6, (173, 174), "Granite Rapids"),
]


def cpu():
    """The first processor's fields of /proc/cpuinfo."""
    fields = {}
    with open("/proc/cpuinfo") as file:
        for line in file:
            name, colon, value = line.partition(":")
            if not colon:
                break
            fields[name.strip()] = value.strip()
    return fields


def machine():
    """The processor, its microarchitecture where it is known, cores, instruction sets."""
    c = cpu()
    name = c.get("model name", os.uname().machine)
    family, model = int(c.get("cpu family", 0)), int(c.get("model", 0))
    for vendor, its_family, models, generation in GENERATIONS:
        if (c.get("vendor_id"), family) == (vendor, its_family) and model in models:
            name += f" ({generation})"
            break
    flags = (c.get("flags") or c.get("Features") or "").split()
    cores = len(os.sched_getaffinity(0))
    return ", ".join([name, f"{cores} core{'s' if cores > 1 else ''}", *(s for s in SETS if s in flags)])


def commit():
    """The commit that is checked out, with a mark where the program differs from it (pages may)."""
    def git(*words):
        return subprocess.run(["git", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    head = git("rev-parse", "--short", "HEAD").stdout.strip()
    changed = head and git("diff", "--quiet", "HEAD", "--", ".", ":!docs", ":!*.md").returncode
    return (head or "unknown") + ("-dirty" if changed else "")


def provenance():
    return {"commit": commit(), "machine": machine(), "date": str(datetime.date.today())}


def sentence(p):
    """'Commit X on MACHINE, DATE.'"""
    return f"Commit {p['commit']} on {p['machine']}, {p['date']}."
