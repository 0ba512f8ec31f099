#!/usr/bin/env bash
# All that a machine with a GPU must prove, one part after the other; a part that fails does not end the run.
#
#     benchmarks/gpu.sh [tests] [attention] [engine] [graphs] [smoke]        default: all of them, about 30 minutes
#
#     tests      the kernels' tests, compiled; those of the rungs flashinfer and cutedsl where their packages are
#     attention  bench_attention.py --device cuda, with these rungs as columns
#     engine     bench_engine.py --device cuda
#     graphs     bench_graphs.py: each mode of recorded forwards, with and without one step ahead, at most 10 minutes
#     smoke      mini-vllm doctor, and text from the bundled model on the GPU
#
# PYTHON chooses the interpreter (python3), RESULTS the folder of the reports (benchmarks/results). mini_vllm need not
# be installed. Exit status 1 if a part failed or ran out of time.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
PYTHON=${PYTHON:-python3}
RESULTS=${RESULTS:-benchmarks/results}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
unset TRITON_INTERPRET

mini_vllm=("$PYTHON" -c 'from mini_vllm.cli import main; main()')
summary=()
failed=0

# check NAME SECONDS COMMAND...
check() {
    local name=$1 limit=$2 start=$SECONDS status verdict
    shift 2
    printf '\n=== %s (at most %s s)\n' "$name" "$limit"
    timeout --kill-after=10 "$limit" "$@"
    status=$?
    case $status in
        0) verdict=ok ;;
        124 | 137) verdict="out of time" ;;
        *) verdict="FAILED ($status)" ;;
    esac
    [ "$status" -eq 0 ] || failed=1
    summary+=("$(printf '%-28s %-14s %4s s' "$name" "$verdict" "$((SECONDS - start))")")
}

run_part() {
    case $1 in
        tests)
            check "tests" 560 "$PYTHON" -m pytest -q -p no:cacheprovider --durations=10 \
                mini_vllm/attention/test_attention.py mini_vllm/attention/test_triton.py \
                mini_vllm/attention/test_triton_engine.py mini_vllm/attention/libraries -m "slow or not slow"
            ;;
        attention)
            check "attention" 560 "$PYTHON" benchmarks/bench_attention.py --device cuda --results "$RESULTS"
            ;;
        engine)
            check "engine" 560 "$PYTHON" benchmarks/bench_engine.py --device cuda --results "$RESULTS"
            ;;
        graphs)
            check "graphs" 590 "$PYTHON" benchmarks/bench_graphs.py --device cuda --results "$RESULTS"
            ;;
        smoke)
            check "doctor" 120 "${mini_vllm[@]}" doctor
            check "generate on cuda" 120 "${mini_vllm[@]}" generate --device cuda --max-tokens 40 --temperature 0 \
                "A KV block is" "Chunked prefill spreads"
            ;;
        *)
            echo "unknown part '$1': tests, attention, engine, graphs or smoke" >&2
            failed=1
            ;;
    esac
}

"$PYTHON" - <<'EOF'
import torch
import triton

gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, Triton {triton.__version__}, {gpu}")
EOF
[ $# -gt 0 ] || set -- tests attention engine graphs smoke
for part in "$@"; do
    run_part "$part"
done

printf '\n=== summary\n'
printf '%s\n' "${summary[@]}"
exit "$failed"
