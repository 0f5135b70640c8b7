using BatchKit.Chaos.Histories;

namespace BatchKit.Chaos.Checks;

/// <summary>All that the histories say of one message.</summary>
/// <param name="Id">The message.</param>
/// <param name="Writer">The process that wrote it.</param>
/// <param name="Target">Where it was to go.</param>
/// <param name="About">When it was about to be written.</param>
internal sealed record MessageStory(MessageId Id, NodeHistory Writer, Target Target, AboutToWrite About)
{
    public Accepted? Accepted { get; set; }

    public Settled? Settled { get; set; }

    public List<Arrival> Arrivals { get; } = [];

    /// <summary>Whether its writer was told that it is delivered.</summary>
    public bool IsAcknowledged => Settled is { Lost: 0 };

    /// <summary>Everything that happened to it, in the order of time.</summary>
    public IEnumerable<(NodeHistory At, HistoryEvent Event)> Lines => new (NodeHistory At, HistoryEvent? Event)[] { (Writer, About), (Writer, Accepted), (Writer, Settled) }
        .Where(line => line.Event is not null).Select(line => (line.At, line.Event!))
        .Concat(Arrivals.Select(arrival => (arrival.At, (HistoryEvent)arrival.Event)))
        .OrderBy(line => line.Item2.Time);
}

/// <summary>A message's arrival.</summary>
/// <param name="At">The process that it arrived at.</param>
/// <param name="Event">What that process recorded.</param>
/// <param name="Place">Which of the process' arrivals it is.</param>
internal sealed record Arrival(NodeHistory At, Arrived Event, int Place);

/// <summary>The stories of all messages of a run.</summary>
internal sealed class MessageStories
{
    private readonly Dictionary<MessageId, MessageStory> _byId = [];

    public MessageStories(RunHistory run)
    {
        foreach (var process in run.Processes)
            AddWritten(process);
        foreach (var process in run.Processes)
            AddArrived(process);
    }

    public IReadOnlyCollection<MessageStory> All => _byId.Values;

    /// <summary>Arrivals of messages that no process was about to write.</summary>
    public List<Arrival> Unknown { get; } = [];

    /// <summary>What each process received, in its order.</summary>
    public Dictionary<NodeHistory, List<(MessageStory Story, Arrival Arrival)>> Received { get; } = new(ReferenceEqualityComparer.Instance);

    private void AddWritten(NodeHistory process)
    {
        foreach (var each in process.Events)
        {
            switch (each)
            {
                case AboutToWrite about:
                    for (var index = 0; index < about.Targets.Count; index++)
                    {
                        var id = new MessageId(process.Name, process.Version, about.First + index);
                        _byId[id] = new MessageStory(id, process, process.Targets[about.Targets[index]], about);
                    }

                    break;
                case Accepted accepted:
                    foreach (var story in Find(process, accepted.First, accepted.Count))
                        story.Accepted = accepted;
                    break;
                case Settled settled:
                    foreach (var story in Find(process, settled.First, settled.Count))
                        story.Settled = settled;
                    break;
            }
        }
    }

    private IEnumerable<MessageStory> Find(NodeHistory process, long first, int count) =>
        Enumerable.Range(0, count).Select(index => _byId[new MessageId(process.Name, process.Version, first + index)]);

    private void AddArrived(NodeHistory process)
    {
        var received = Received[process] = [];
        foreach (var arrived in process.Events.OfType<Arrived>())
        {
            var arrival = new Arrival(process, arrived, received.Count);
            if (!_byId.TryGetValue(arrived.Message, out var story))
            {
                Unknown.Add(arrival);
                continue;
            }

            story.Arrivals.Add(arrival);
            received.Add((story, arrival));
        }
    }
}
