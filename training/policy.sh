#!/usr/bin/env bash
# Train robot policies of three sizes side by side, judge the first by whole episodes, and record one to be watched.
#
#   bash training/policy.sh FOLDER      # on one GPU, about eight minutes; what is small is written to FOLDER
#
# Needs carry/training/push.npz (tasks.py) and MuJoCo in carry/metaworld (packages.py). Weights stay in out/.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
to=$1
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2 PYTHONWARNINGS=ignore
: "${PYTHON:=python3}" "${DEVICE:=cuda}" "${PACKAGES:=carry/metaworld}" "${EPISODES:=200}" "${TRAINING:=180}" "${WORKERS:=5}"
: "${SIZES:=17m:128:256:512 65m:256:512:1024 252m:512:1024:2048}"
mkdir -p out "$to"

trainings=()
for size in $SIZES; do
    IFS=: read -r name widths <<<"$size"
    "$PYTHON" training/policy.py --widths ${widths//:/ } --seconds "$TRAINING" --device "$DEVICE" \
        --out "out/push-$name.safetensors" >"$to/train-$name.log" 2>&1 &
    trainings+=($!)
done
for training in "${trainings[@]}"; do
    wait "$training" || echo "a training failed: see $to/train-*.log"
done
tail -n 2 "$to"/train-*.log

judged=out/push-${SIZES%%:*}.safetensors
shared=(--policy "$judged" --packages "$PACKAGES" --device "$DEVICE")
timeout 300 "$PYTHON" training/rollouts.py "${shared[@]}" --episodes "$EPISODES" --workers "$WORKERS" --out "$to/rollouts.json"
timeout 60 "$PYTHON" training/watch.py record "${shared[@]}" --seed 3 --out "$to/watch.npz" --page "$to/watch.html"
