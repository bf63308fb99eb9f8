// The filter of the table: words that must all hold. `gpt` is looked for in names, states and settings;
// `family=gpt`, `lr>1e-3`, `state!=running` compare a field or a setting, which may be named by its last part.
const FIELDS = ["name", "state", "family", "unit", "ranks", "host", "device", "parameters", "step", "steps", "loss",
    "validation_loss", "rate", "mfu", "seconds"];
export function valueOf(run, name) {
    const field = FIELDS.find((one) => one === name);
    if (field)
        return run[field];
    if (name in run.config)
        return run.config[name];
    const key = Object.keys(run.config).find((one) => one.endsWith(`.${name}`));
    return key === undefined ? undefined : run.config[key];
}
function compare(found, sign, wanted) {
    if (found === undefined)
        return sign === "!=";
    const a = Number(found), b = Number(wanted);
    const numbers = wanted !== "" && found !== "" && !Number.isNaN(a) && !Number.isNaN(b);
    switch (sign) {
        case "=": return numbers ? a === b : String(found).toLowerCase().includes(wanted.toLowerCase());
        case "!=": return numbers ? a !== b : !String(found).toLowerCase().includes(wanted.toLowerCase());
        case "<": return numbers && a < b;
        case "<=": return numbers && a <= b;
        case ">": return numbers && a > b;
        default: return numbers && a >= b;
    }
}
function wordTest(word) {
    const parts = /^([\w.]+)(!=|<=|>=|=|<|>)(.*)$/.exec(word);
    if (parts) {
        const [, name = "", sign = "", wanted = ""] = parts;
        return (run) => compare(valueOf(run, name), sign, wanted);
    }
    const text = word.toLowerCase();
    return (run) => run.name.toLowerCase().includes(text) || run.state.includes(text) ||
        run.family.toLowerCase().includes(text) || Object.values(run.config).some((value) => value.toLowerCase().includes(text));
}
export function parseFilter(text) {
    const tests = text.split(/\s+/).filter((word) => word !== "").map(wordTest);
    return (run) => tests.every((test) => test(run));
}
