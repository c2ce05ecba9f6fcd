"use strict";
// The weights of a small model, each of them as a number and all as pictures.
addView({
    id: "weights",
    follows: [],
    title: "Every weight",
    says: "The matrices and vectors of the model as the program uses them, dequantised to float32: a row for each output, a column for each " +
        "input. Click a cell, or give its row and column, for the numbers around it.",
    present: () => Boolean(core.weights && core.weights.length),
    needs() { return [this.current().block]; },
    index: 0, row: 0, column: 0,

    build(body) {
        const options = core.weights.map((weight, i) => el("option", { value: i }, `${weight.name}  ${weight.shape.join(" × ")}`));
        this.select = el("select", { "aria-label": "tensor", onchange: () => this.open(Number(this.select.value)) }, options);
        this.facts = el("p", { class: "facts" });
        this.picture = new MatrixPicture("the weights as a picture", (row, column) => { this.row = row; this.column = column; this.draw(); });
        body.append(el("div", { class: "controls" }, this.select, this.picture.fields), this.facts, this.picture.scroll, this.picture.scale, this.picture.grid);
    },

    open(index) {
        Object.assign(this, { index, row: 0, column: 0 });
        drawView(this);
    },

    current() { return core.weights[this.index]; },

    draw() {
        const weight = this.current(), shape = weight.shape, columns = shape[shape.length - 1];
        const rows = shape.length > 1 ? shape[0] : 1, values = this.valuesOf(weight, rows * columns);
        let low = Infinity, high = -Infinity, squares = 0;
        for (const x of values) { low = Math.min(low, x); high = Math.max(high, x); squares += x * x; }
        this.facts.textContent = `${weight.type} · ${grouped(values.length)} weights · min ${exact(low)} · max ${exact(high)} · rms ${short(Math.sqrt(squares / values.length), 6)}`;
        this.picture.show({ values, rows, columns, exact: true, rowName: () => "", columnName: () => "" }, clamp(this.row, rows), clamp(this.column, columns));
    },

    // q8: a scale for each group of numbers, then an int8 for each number; the product is rounded to
    // float32, as the program does it.
    groups(weight, count) {
        const offset = weight.offset || 0, groups = count / weight.group, scales = floatsAt(weight.block, offset, groups);
        const bytes = decodedBlocks.get(weight.block), q = new Int8Array(bytes.buffer, bytes.byteOffset + offset + 4 * groups, count);
        return Float32Array.from(q, (x, i) => x * scales[Math.floor(i / weight.group)]);
    },

    valuesOf(weight, count) {
        if (this.cached !== weight) { this.values = weight.coding === "q8" ? this.groups(weight, count) : floatsAt(weight.block, weight.offset || 0, count); this.cached = weight; }
        return this.values;
    },
});
