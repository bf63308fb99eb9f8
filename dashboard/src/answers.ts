// What the server answers (trireme/dashboard/*_answer.h), and asking for it.

export interface Run {
  run: number;
  name: string;
  gone?: boolean;
  state: string;
  family: string;
  unit: string;
  ranks: number;
  host: string;
  device: string;
  parameters?: number;
  step?: number;
  steps?: number;
  loss?: number;
  validation_loss?: number;
  rate?: number;
  mfu?: number;
  seconds?: number;
  started?: number;
  changed?: number;
  config: Record<string, string>;
}

export interface RunsAnswer {
  version: number;
  count: number;
  keys: string[];
  runs: Run[];
}

export interface Details {
  run: Record<string, unknown>;
  plan: Record<string, unknown>;
  config: Record<string, string>;
  defaults: Record<string, string>;
  facts: Record<string, unknown>;
  events: Record<string, unknown>[];
  samples: Record<string, unknown>[];
  checkpoints: { name: string; bytes: number; time: number }[];
  names: string[];
  rank_logs: number;
}

interface Grid {
  from: number;
  to: number;
  width: number;
  first: number;
  cells: number;
}

export interface Series {
  run: number;
  name: string;
  values: (number | null)[];
  means?: (number | null)[];
}

export interface SeriesAnswer extends Grid {
  slots: number;
  series: Series[];
}

export interface RanksAnswer extends Grid {
  ranks: RankTimes[];
}

export interface RankTimes {
  rank: number;
  seconds: (number | null)[];
  comm_seconds: (number | null)[];
  waiting: (number | null)[];
  bytes_sent: (number | null)[];
  last: number;  // in what share of the steps it came last
}

export interface TimelineEvent {
  name?: string;
  kind?: string;
  track?: string;
  begin: number;  // seconds from when the first rank began
  end: number;
  bytes?: number;
  microbatch?: number;
}

export interface TimelineRank {
  rank: number;
  stands_for?: number;
  left_out?: number;
  begin?: number;
  seconds?: number;
  events: TimelineEvent[];
}

export interface Timeline {
  step?: number;
  begin: number;
  seconds: number;
  ranks: TimelineRank[];
}

export interface TimelineAnswer {
  real: Timeline | null;
  simulated: Timeline | null;
}

export interface SeriesQuestion {
  runs: number[];
  names: string[];
  x: string;
  from?: number;
  to?: number;
  columns: number;
  means: boolean;
}

async function ask<Answer>(path: string, query: Record<string, string>): Promise<Answer> {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  return await answer.json() as Answer;
}

export function askRuns(since: number): Promise<RunsAnswer> {
  return ask("/api/runs", { since: String(since) });
}

export function askDetails(run: number): Promise<Details> {
  return ask("/api/run", { run: String(run) });
}

export function askTimeline(run: number): Promise<TimelineAnswer> {
  return ask("/api/timeline", { run: String(run) });
}

export function askSeries(question: SeriesQuestion): Promise<SeriesAnswer> {
  const query: Record<string, string> = {
    runs: question.runs.join(","), names: question.names.join(","), x: question.x, columns: String(question.columns),
  };
  if (question.from !== undefined) query.from = String(question.from);
  if (question.to !== undefined) query.to = String(question.to);
  if (question.means) query.means = "1";
  return ask("/api/series", query);
}

export function askRanks(run: number, columns: number, from?: number, to?: number): Promise<RanksAnswer> {
  const query: Record<string, string> = { run: String(run), columns: String(columns) };
  if (from !== undefined) query.from = String(from);
  if (to !== undefined) query.to = String(to);
  return ask("/api/ranks", query);
}
