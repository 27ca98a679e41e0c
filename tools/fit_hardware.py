#!/usr/bin/env python3
"""Fits numbers of a hardware file to measured steps, and judges it.

    tools/fit_hardware.py hardware/a100-selene.json --fit matmul_efficiency,memory_efficiency \
        --rows published.csv:SC21-T1:megatron-2021 --judge published.csv:Korthikanti-T5:megatron-2022

A set of rows is FILE:SOURCE:IMPLEMENTATION[:[odd|even][:OPTIONS]]; SOURCE is a value of the column "source", or empty;
OPTIONS are passed on to trine-plan. The numbers
are changed until Huber's function of the logarithms of predicted over measured is least (Gauss-Newton, with differences;
each set counts the same, however many rows it has), and written into the file with --write, which also writes the
mean and the worst error of the rows to which nothing was fitted (--judge; without one, of all) as "checked", from which
trine-plan makes the ranges of times. --each leaves each row out in turn, --parts prints the errors with each part of the
model switched off. --constant RATE prints the errors of a planner that knows a model's flops and one rate of all GPUs.
--layouts prints, for the rows of one model and batch, by how much the layout that is predicted to be the fastest is
slower than the one that was, and Spearman's rank correlation.
"""
import argparse, collections, csv, io, json, math, os, subprocess, tempfile

OUTLIER = 0.05  # of a logarithm
PARTS = "memory-bound tp gradient-adds bubble dp tiles messages head update host".split()


def step_flops(row):
    """Of a step by the formulas of the two papers: with the forward pass twice where all is recomputed."""
    b, s, l, h, v = (float(row[n]) for n in ("batch", "seq", "layers", "hidden", "vocab"))
    passes = 4 if row["recompute"] == "full" else 3
    return 24 * passes * b * s * l * h * h * (1 + s / (6 * h) + v / (4 * passes * l * h))


def measured(row):
    """Seconds of a step; None: the row measures something else."""
    if row.get("iteration time (ms)"):
        return float(row["iteration time (ms)"]) / 1000
    if row.get("metric") == "iter_time":
        return float(row["value"])
    if row.get("metric") == "tflops_gpu_96BslhH":
        return step_flops(row) / (float(row["value"]) * 1e12 * float(row["gpus"]))
    return None


class Rows:
    """Rows of a file, with what predicts them."""

    def __init__(self, text, plan, scratch):
        path, source, self.implementation, which, more = (text + "::::").split(":")[:5]
        with open(path, encoding="utf-8-sig", newline="") as f:
            rows = list(csv.DictReader(f))
        self.name = text
        rows = [r for r in rows if (not source or r["source"] == source) and measured(r)]
        if which:  # the first row is odd
            rows = rows[{"odd": 0, "even": 1}[which] :: 2]
        self.seconds = [measured(r) for r in rows]
        self.plan, self.options, self.rows = plan, more.split(), rows
        self.path = os.path.join(scratch, f"rows{id(self)}.csv")
        with open(self.path, "w", newline="") as f:
            w = csv.DictWriter(f, rows[0].keys())
            w.writeheader()
            w.writerows(rows)

    def predict(self, hardware, more=()):
        out = subprocess.run(
            [self.plan, "--hardware", hardware, "--implementation", self.implementation, "--csv", self.path]
            + self.options + list(more), check=True, capture_output=True, text=True).stdout
        return [float(r["predicted_seconds"]) for r in csv.DictReader(io.StringIO(out))]

    def logs(self, hardware, more=()):
        return [math.log(p / m) for p, m in zip(self.predict(hardware, more), self.seconds)]


def least_squares(a, b):
    """x that makes |a x - b| least: the normal equations, by elimination, with a little damping."""
    n = len(a[0])
    m = [[sum(r[i] * r[j] for r in a) + (1e-6 if i == j else 0) for j in range(n)]
         + [sum(r[i] * y for r, y in zip(a, b))] for i in range(n)]
    for i in range(n):
        p = max(range(i, n), key=lambda k: abs(m[k][i]))
        m[i], m[p] = m[p], m[i]
        for k in range(n):
            if k != i:
                f = m[k][i] / m[i][i]
                m[k] = [x - f * y for x, y in zip(m[k], m[i])]
    return [m[i][n] / m[i][i] for i in range(n)]


def bounded_step(a, b, room):
    """The same, with x[i] at most room[i]: what would go beyond is held there, and the others are solved again."""
    held = {}
    while True:
        free = [i for i in range(len(room)) if i not in held]
        if not free:
            return [held[i] for i in range(len(room))]
        rest = [y - sum(r[i] * x for i, x in held.items()) for r, y in zip(a, b)]
        x = dict(zip(free, least_squares([[r[i] for i in free] for r in a], rest)))
        over = [i for i in free if x[i] > room[i]]
        if not over:
            return [{**held, **x}[i] for i in range(len(room))]
        held.update((i, room[i]) for i in over)


def text_of(file):
    """A hardware file, a line for each member."""
    lines = [f'    "{name}": {json.dumps(file[name])}' for name in ("about", "device") if name in file]
    for name, row in file.items():
        if name not in ("about", "device", "checked", "calibrated"):
            value = f"{row['value']:.6g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
            lines.append(f'    "{name}": {{"value": {value}, "how": "{row["how"]}", "source": {json.dumps(row["source"])}}}')
    lines += [f'    "{name}": {json.dumps(file[name])}' for name in ("checked", "calibrated") if name in file]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def huber(r):
    """A square, continued by a line: a row that no model predicts does not bend the fit to all others."""
    return r * r if abs(r) < OUTLIER else OUTLIER * (2 * abs(r) - OUTLIER)


class Fit:
    def __init__(self, path, names, scratch):
        with open(path) as f:
            self.file = json.load(f)
        self.names, self.scratch = names, os.path.join(scratch, "fitted.json")

    def set(self, logs):
        for name, x in zip(self.names, logs):
            top = 1 if name.endswith("efficiency") else 1e30
            self.file[name]["value"] = float(f"{min(top, math.exp(x)):.4g}")
        with open(self.scratch, "w") as f:
            json.dump(self.file, f)
        return self.scratch

    def start(self):
        return [math.log(self.file[n]["value"]) for n in self.names]

    def run(self, sets, leave=None, rounds=8):
        share = [1 / len(s.rows) for s in sets for _ in s.rows]
        share = [w for n, w in enumerate(share) if n != leave]

        def residuals(x):
            path = self.set(x)
            return [y for n, y in enumerate(y for s in sets for y in s.logs(path)) if n != leave]

        def loss(r):
            return sum(w * huber(y) for w, y in zip(share, r))

        x = self.start()
        now = residuals(x)
        for _ in range(rounds):
            columns = []
            for n in range(len(x)):
                step = -0.02  # an efficiency of 1 can only sink
                there = residuals(x[:n] + [x[n] + step] + x[n + 1 :])
                columns.append([(b - a) / step for a, b in zip(now, there)])
            room = [-y if n.endswith("efficiency") else math.inf for n, y in zip(self.names, x)]
            weight = [math.sqrt(w * min(1, OUTLIER / max(abs(y), 1e-9))) for w, y in zip(share, now)]
            rows = [[w * c for c in row] for w, row in zip(weight, zip(*columns))]
            move = bounded_step(rows, [-w * r for w, r in zip(weight, now)], room)
            scale, best = 1.0, loss(now)
            while scale > 0.05:
                to = [a + scale * max(-0.5, min(0.5, m)) for a, m in zip(x, move)]
                to = [min(0.0, t) if n.endswith("efficiency") else t for n, t in zip(self.names, to)]
                there = residuals(to)
                if loss(there) < best:
                    break
                scale /= 2
            if scale <= 0.05 or best - loss(there) < 1e-7:
                break
            x, now = to, there
        self.set(x)
        return x


def checked(judged):
    """The errors on sets of (name, logs), as a hardware file has them."""
    e = [abs(math.exp(x) - 1) for _, logs in judged for x in logs]
    names = "; ".join(os.path.basename(name.split(":")[0]) + name[len(name.split(":")[0]):] for name, _ in judged)
    return {"mean": round(sum(e) / len(e), 4), "worst": math.ceil(max(e) * 1e4) / 1e4, "rows": len(e), "source": names}


def errors(name, logs):
    e = sorted(abs(math.exp(x) - 1) for x in logs)
    print(f"{name}: {len(e)} rows, mean {100 * sum(e) / len(e):.2f}%, median {100 * e[len(e) // 2]:.2f}%, "
          f"worst {100 * e[-1]:.2f}%", flush=True)


def ranks(values):
    place = {n: rank for rank, n in enumerate(sorted(range(len(values)), key=values.__getitem__))}
    return [place[n] for n in range(len(values))]


def layouts(rows, predicted):
    """How well the predictions choose among the layouts of each model, batch and number of GPUs."""
    groups = collections.defaultdict(list)
    for row, pair in zip(rows.rows, zip(predicted, rows.seconds)):
        groups[tuple(row[n] for n in ("hidden size", "# layers", "global batch", "# GPUs"))].append(pair)
    correlations = []
    for (hidden, layers, batch, gpus), pairs in groups.items():
        n = len(pairs)
        if n < 2:
            continue
        behind = min(pairs)[1] / min(m for _, m in pairs) - 1
        apart = sum((a - b) ** 2 for a, b in zip(*map(ranks, zip(*pairs))))
        correlations.append(1 - 6 * apart / (n * (n * n - 1)))
        print(f"{layers} layers of {hidden}, batch {batch}, {gpus} GPUs: {n} layouts, the first {100 * behind:.1f}% slower "
              f"than the fastest, rank correlation {correlations[-1]:.2f}")
    print(f"mean rank correlation {sum(correlations) / len(correlations):.2f}")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("hardware")
    a.add_argument("--fit", default="")
    a.add_argument("--rows", action="append", default=[])
    a.add_argument("--judge", action="append", default=[])
    a.add_argument("--plan", default="build/trine-plan")
    a.add_argument("--write", action="store_true")
    a.add_argument("--each", action="store_true")
    a.add_argument("--parts", action="store_true")
    a.add_argument("--constant", type=float, metavar="RATE")
    a.add_argument("--layouts", action="store_true")
    a.add_argument("--verbose", action="store_true")
    k = a.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sets = [Rows(t, k.plan, scratch) for t in k.rows]
        judged = [Rows(t, k.plan, scratch) for t in k.judge]
        fit = Fit(k.hardware, [n for n in k.fit.split(",") if n], scratch)
        if k.each:
            left = []
            for n in range(sum(len(s.rows) for s in sets)):
                path = fit.set(Fit(k.hardware, fit.names, scratch).run(sets, leave=n))
                left.append([y for s in sets for y in s.logs(path)][n])
            errors("each row, left out of the fit", left)
        fit.set(fit.run(sets) if fit.names else fit.start())
        for name in fit.names:
            print(f"{name} {fit.file[name]['value']}")
        checks = []
        for s in sets + judged:
            logs = s.logs(fit.scratch)
            errors(s.name, logs)
            if k.constant:
                errors(f"{k.constant:g} FLOP/s: {s.name}", [math.log(step_flops(r) / k.constant / float(r["gpus"]) / m)
                                                            for r, m in zip(s.rows, s.seconds)])
            if k.layouts:
                layouts(s, s.predict(fit.scratch))
            if s in (judged or sets):
                checks.append((s.name, logs))
            for row, m, x in zip(s.rows, s.seconds, logs) if k.verbose else ():
                layout = [row.get(n) or row.get(o) for n, o in (
                    ("model_B", "Parameters (billion)"), ("hidden", "hidden size"), ("layers", "# layers"),
                    ("seq", "sequence length"), ("tp", "tensor parallelism"), ("pp", "pipeline parallelism"),
                    ("dp", "data parallelism"), ("batch", "global batch"), ("mbs", "micro batch"))]
                print("   ", *layout, f"{m:.3f} s {100 * (math.exp(x) - 1):+.2f}%")
        for part in PARTS if k.parts else ():
            for s in sets + judged:
                errors(f"without {part}: {s.name}", s.logs(fit.scratch, ["--without", part]))
        if k.write:
            fit.file["checked"] = checked(checks)
            with open(k.hardware, "w") as f:
                f.write(text_of(fit.file))


if __name__ == "__main__":
    main()
