using BatchKit.Chaos.Histories;

namespace BatchKit.Chaos.Checks;

/// <summary>Checks the counters of each process that ended normally: that they add up, and that they say what its history says.</summary>
internal sealed class Conservation(MessageStories stories)
{
    private const string Rule = "conservation";

    public IEnumerable<Violation> Find(NodeHistory process)
    {
        var ended = process.Events.OfType<Ended>().FirstOrDefault();
        if (ended is null)
        {
            // One that was told to end before it had started has nothing to tell.
            if (process is { WasKilled: false, EndBegan: not null } && process.Events.OfType<Started>().Any())
                yield return new Violation("ending", $"{process} was told to end, and did not write its counters", null, process.EndBegan.Value);
            yield break;
        }

        foreach (var what in CheckOutput(process, ended.Output).Concat(ended.Input.Count == 0 ? [] : CheckInput(process, ended.Input)))
            yield return new Violation(Rule, $"{process}: {what}", null, ended.Time);
    }

    private static IEnumerable<string> CheckOutput(NodeHistory process, IReadOnlyList<long> output)
    {
        var (accepted, acknowledged, failed, dropped, pending) = (output[0], output[1], output[2], output[3], output[4]);
        var written = process.Events.OfType<Accepted>().Sum(each => (long)each.Count);
        var lost = process.Events.OfType<Settled>().Sum(each => each.Lost);
        if (accepted != acknowledged + failed + dropped + pending)
            yield return $"accepted {accepted} is not acknowledged {acknowledged} + failed {failed} + dropped {dropped} + pending {pending}";
        if (pending != 0)
            yield return $"{pending} messages are pending after its end";
        if (accepted != written)
            yield return $"accepted {accepted}, and {written} were written";
        if (failed + dropped != lost)
            yield return $"failed {failed} + dropped {dropped}, and the ends of scopes told of {lost}";
    }

    private IEnumerable<string> CheckInput(NodeHistory process, IReadOnlyList<long> input)
    {
        var (received, delivered, duplicate, own, refused, abandoned) = (input[0], input[1], input[2], input[3], input[4], input[5]);
        var arrived = stories.Received[process].Count;
        if (received != delivered + duplicate + own + refused + abandoned)
            yield return $"received {received} is not delivered {delivered} + duplicate {duplicate} + own group {own} + refused {refused} + abandoned {abandoned}";
        if (refused + input[6] + input[7] != 0)
            yield return $"refused {refused} messages, {input[6]} frames as malformed and {input[7]} as rejected";
        if (arrived < delivered || arrived > delivered + abandoned)
            yield return $"delivered {delivered} and abandoned {abandoned}, and {arrived} arrived";
    }
}
