// Numbers as people read them.
export function loss(value) {
    if (value === undefined)
        return "";
    return Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(2) : value.toFixed(4);
}
// Three or four digits, with the unit's prefix: 12.3k, 4.56M.
export function short(value) {
    if (value === undefined)
        return "";
    const size = Math.abs(value);
    for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
        if (size >= unit)
            return `${(value / unit).toPrecision(3)}${letter}`;
    }
    return size >= 100 ? value.toFixed(0) : size >= 1 || size === 0 ? String(+value.toPrecision(3)) : precise(value);
}
// Of places on an axis that are so far apart: with as many digits as tell them apart.
export function countTick(value, apart) {
    for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
        if (apart >= unit)
            return `${+(value / unit).toFixed(3)}${value === 0 ? "" : letter}`;
    }
    return value.toLocaleString("en-US");
}
export function precise(value) {
    const size = Math.abs(value);
    if (value !== 0 && (size < 1e-3 || size >= 1e7))
        return value.toExponential(3).replace(/\.?0+e/, "e");
    return String(+value.toPrecision(5));
}
export function whole(value) {
    return value === undefined ? "" : Math.round(value).toLocaleString("en-US");
}
export function percent(value) {
    return value === undefined ? "" : `${(100 * value).toFixed(1)}%`;
}
export function percentTick(value) {
    return `${+(100 * value).toPrecision(4)}%`;
}
export function bytesTick(value) {
    return bytes(value).replace(".0 ", " ");
}
export function bytes(value) {
    if (value === undefined)
        return "";
    let size = value;
    for (const unit of ["B", "KiB", "MiB", "GiB"]) {
        if (size < 1024)
            return `${unit === "B" ? size : size.toFixed(1)} ${unit}`;
        size /= 1024;
    }
    return `${size.toFixed(1)} TiB`;
}
export function duration(seconds) {
    if (seconds === undefined)
        return "";
    if (seconds < 1)
        return `${(1000 * seconds).toPrecision(3)} ms`;
    if (seconds < 60)
        return `${seconds.toFixed(1)} s`;
    const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
    if (hours === 0)
        return `${minutes}m ${String(Math.floor(seconds % 60)).padStart(2, "0")}s`;
    if (days === 0)
        return `${hours}h ${String(minutes % 60).padStart(2, "0")}m`;
    return `${days}d ${String(hours % 24).padStart(2, "0")}h`;
}
export function time(seconds) {
    if (seconds === undefined)
        return "";
    const date = new Date(1000 * seconds), two = (value) => String(value).padStart(2, "0");
    return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
        `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
// "12 s ago".
export function ago(seconds) {
    if (seconds === undefined)
        return "";
    const passed = Date.now() / 1000 - seconds;
    if (passed < 10)
        return "now";
    if (passed < 60)
        return `${Math.floor(passed)} s ago`;
    if (passed < 3600)
        return `${Math.floor(passed / 60)} min ago`;
    if (passed < 48 * 3600)
        return `${Math.floor(passed / 3600)} h ago`;
    return `${Math.floor(passed / 86400)} days ago`;
}
