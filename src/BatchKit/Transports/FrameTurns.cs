namespace BatchKit.Transports;

/// <summary>Publishes the frames of a send, each after those that share a receiver with it are answered, and none behind one that is held up, because receivers would later drop that one as a repeat.</summary>
internal static class FrameTurns
{
    /// <summary>Publishes them.</summary>
    /// <param name="frames">The frames, as they were planned.</param>
    /// <param name="publish">Publishes frames that have no receiver in common, side by side, and returns the answer to each.</param>
    /// <param name="holdUp">Returns whose output must wait because of a frame's answer: the frame's destination, or <see cref="FrameDestination.All"/> when nothing is known of the connection; null for nobody's.</param>
    /// <returns>The answer to each frame; what waits is not taken.</returns>
    public static async ValueTask<FrameResult[]> PublishAsync(
        IReadOnlyList<PlannedFrame> frames, Func<PlannedFrame[], ValueTask<FrameResult[]>> publish, Func<FrameDestination, FrameResult, FrameDestination?> holdUp)
    {
        var results = new FrameResult[frames.Count];
        Array.Fill(results, new FrameResult(FrameOutcome.NotTaken));
        var heldUp = new List<FrameDestination>();
        for (int first = 0, count; first < results.Length; first += count)
        {
            count = FramePlan.CountApart(frames, first);
            var run = Enumerable.Range(first, count).ToLookup(place => heldUp.Exists(frames[place].Destination.Shares));
            // What shares a receiver with one that waits would overtake it there.
            heldUp.AddRange(run[true].Select(place => frames[place].Destination));
            int[] places = [.. run[false]];
            if (places.Length == 0)
                continue;
            var answers = await publish(Array.ConvertAll(places, place => frames[place])).ConfigureAwait(false);
            foreach (var (place, answer) in places.Zip(answers))
            {
                results[place] = answer;
                if (holdUp(frames[place].Destination, answer) is { } waiting)
                    heldUp.Add(waiting);
            }
        }

        return results;
    }
}
