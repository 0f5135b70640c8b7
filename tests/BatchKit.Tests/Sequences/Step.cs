namespace BatchKit.Tests.Sequences;

/// <summary>One step. Its numbers are taken modulo what exists, so that any part of a sequence is a sequence too and shrinking works.</summary>
/// <param name="Kind">What it does.</param>
/// <param name="Handle">Which handle.</param>
/// <param name="Scope">Which of the scopes opened so far, closed ones included; the step closes a copy of it. Also draws a key, a time to live, and the length of a loop.</param>
/// <param name="Size">The payload's size; also draws a scope's limit, and how many milliseconds pass.</param>
/// <param name="Elsewhere">True to do it on another thread.</param>
internal sealed record Step(StepKind Kind, int Handle, int Scope, int Size, bool Elsewhere)
{
    /// <summary>The limit of the scope that it opens: one that passes soon, later, or hardly ever.</summary>
    public TimeSpan Limit => TimeSpan.FromMilliseconds((Size % 3) switch { 0 => 20, 1 => 90, _ => 3000 });

    /// <summary>The key of the latest value that it writes; null for other messages.</summary>
    public long? Key => Kind is StepKind.WriteLatest or StepKind.WriteLatestText ? (Scope % 4) - 1 : null;

    /// <summary>How long what it writes may wait: a little, a while, or hardly ever too long; null for other messages.</summary>
    public TimeSpan? TimeToLive => Kind == StepKind.WriteExpiring ? TimeSpan.FromMilliseconds((Scope % 3) switch { 0 => 5, 1 => 45, _ => 2000 }) : null;

    /// <summary>How many messages its loop writes.</summary>
    public int Count => Scope % 12;

    public override string ToString() => Kind switch
    {
        StepKind.WriteLatest or StepKind.WriteLatestText => $"{Kind}(h{Handle}, key {Key}, {Size} B){Where}",
        StepKind.Write or StepKind.TryWrite or StepKind.WriteAsync or StepKind.WriteText => $"{Kind}(h{Handle}, {Size} B){Where}",
        StepKind.WriteExpiring => $"{Kind}(h{Handle}, {TimeToLive!.Value.TotalMilliseconds} ms, {Size} B){Where}",
        StepKind.WriteLoop => $"{Kind}(h{Handle}, {Count} of {Size} B){Where}",
        StepKind.OpenLimited => $"{Kind}(h{Handle}, {Limit.TotalMilliseconds} ms){Where}",
        StepKind.Advance => $"{Kind}({Size} ms)",
        StepKind.Close or StepKind.CloseTwice or StepKind.CloseAsync => $"{Kind}(s{Scope}){Where}",
        StepKind.OpenAmbient or StepKind.FlushAll => $"{Kind}(){Where}",
        _ => $"{Kind}(h{Handle}){Where}",
    };

    private string Where => Elsewhere ? " elsewhere" : string.Empty;
}
