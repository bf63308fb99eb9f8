// What the server answers (trireme/dashboard/*_answer.h), and asking for it.
async function ask(path, query) {
    const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
    if (!answer.ok)
        throw new Error((await answer.text()).trim() || `status ${answer.status}`);
    return await answer.json();
}
export function askRuns(since) {
    return ask("/api/runs", { since: String(since) });
}
export function askDetails(run) {
    return ask("/api/run", { run: String(run) });
}
export function askTimeline(run) {
    return ask("/api/timeline", { run: String(run) });
}
export function askSeries(question) {
    const query = {
        runs: question.runs.join(","), names: question.names.join(","), x: question.x, columns: String(question.columns),
    };
    if (question.from !== undefined)
        query.from = String(question.from);
    if (question.to !== undefined)
        query.to = String(question.to);
    if (question.means)
        query.means = "1";
    return ask("/api/series", query);
}
export function askRanks(run, columns, from, to) {
    const query = { run: String(run), columns: String(columns) };
    if (from !== undefined)
        query.from = String(from);
    if (to !== undefined)
        query.to = String(to);
    return ask("/api/ranks", query);
}
