namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Lets its share of the clients join and leave groups, by control messages, at any moment.</summary>
internal sealed class Churner(IOutputBuffer output, MessageStreams streams, HoldClient[] clients, int seed)
{
    private const int MaxOpen = 500;

    private readonly Random _random = new(seed);
    private readonly List<(HoldClient Client, Membership Membership)> _open = [];

    public long Joins { get; private set; }

    public long Leaves { get; private set; }

    /// <summary>One join, and a leave for each when enough are in.</summary>
    public void Turn()
    {
        Join();
        if (_open.Count > MaxOpen || _random.Next(10) == 0)
            Leave(_random.Next(_open.Count));
        if (_open.Count > MaxOpen)
            Leave(_open.Count - 1);
    }

    public void LeaveAll()
    {
        while (_open.Count > 0)
            Leave(_open.Count - 1);
    }

    private void Join()
    {
        HoldClient client;
        int stream;
        do
        {
            (client, stream) = (clients[_random.Next(clients.Length)], _random.Next(MessageStreams.Groups));
        }
        while (client.Stays.Contains(stream) || _open.Exists(entry => entry.Client == client && entry.Membership.Stream == stream));

        Join(client, stream);
    }

    private void Join(HoldClient client, int stream)
    {
        var membership = new Membership(stream);
        client.Log.Announce(membership);
        using (output.BeginBufferingScope(client.Handle))
        {
            output.Write(client.Handle, $"join {stream}\n");
            output.Write(client.Handle, ControlMessage.JoinGroup(MessageStreams.GroupOf(stream)));
        }

        membership.MustBeginAt(streams.Assigned(stream) + 1);
        _open.Add((client, membership));
        Joins++;
    }

    private void Leave(int place)
    {
        var (client, membership) = _open[place];
        _open[place] = _open[^1];
        _open.RemoveAt(_open.Count - 1);
        membership.MustReach(streams.Written(membership.Stream));
        using (output.BeginBufferingScope(client.Handle))
        {
            output.Write(client.Handle, $"leave {membership.Stream}\n");
            output.Write(client.Handle, ControlMessage.LeaveGroup(MessageStreams.GroupOf(membership.Stream)));
        }

        Leaves++;
    }
}
