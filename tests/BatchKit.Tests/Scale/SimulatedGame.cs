using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Scale;

/// <summary>Where a game writes the lines of rooms.</summary>
public enum RoomLineOrder
{
    /// <summary>To the rooms' groups, behind the lines of all players.</summary>
    BehindAllPlayers = 0,

    /// <summary>To each room's group, right behind the lines of its players.</summary>
    BehindItsPlayers = 1,

    /// <summary>To each member, behind the player's own line.</summary>
    ToMembers = 2,
}

/// <summary>A game: gets its players' input, and in each tick writes a line to each player and one to each room.</summary>
internal sealed class SimulatedGame(SimulatedCluster cluster, SimulatedNode node)
{
    private readonly List<int> _rooms = [];
    private readonly byte[] _line = new byte[SimulatedCluster.LineBytes];
    private OutputBuffer _output = cluster.CreateOutput(node, epoch: 1);
    private long _epoch = 1;

    public OutputBuffer Output => _output;

    public SimulatedNode Node => node;

    public IReadOnlyList<int> Rooms => _rooms;

    public IEnumerable<int> Players => _rooms.SelectMany(SimulatedCluster.MembersOf);

    public void AddRoom(int room) => _rooms.Add(room);

    public bool IsDeliveredLocally(ProducerId producer, OutputHandle handle) => _output.IsDeliveredLocally(producer, handle);

    public void TakeInput(MessageBatch batch)
    {
        foreach (var message in batch)
            cluster.Inputs.Take(cluster.ClientAt(batch.Handle, message.Payload.Span), message.Payload.Span);
    }

    /// <summary>Lets players join the groups of their rooms.</summary>
    public void Join(IEnumerable<int> clients) => InOneScope(() =>
    {
        foreach (var client in clients)
            _output.Write(cluster.Handles[client], ControlMessage.JoinGroup(SimulatedCluster.GroupOf(SimulatedCluster.RoomOf(client)).Name!));
    });

    /// <summary>Writes a line to each player and one to each room.</summary>
    public void Tick(int line, RoomLineOrder order) => InOneScope(() =>
    {
        foreach (var room in _rooms)
        {
            foreach (var client in SimulatedCluster.MembersOf(room))
            {
                Write(cluster.Handles[client], client, line);
                if (order == RoomLineOrder.ToMembers)
                    Write(cluster.Handles[client], LineBook.NumberOfRoom(room), line);
            }

            if (order == RoomLineOrder.BehindItsPlayers)
                Write(SimulatedCluster.GroupOf(room), LineBook.NumberOfRoom(room), line);
        }

        foreach (var room in order == RoomLineOrder.BehindAllPlayers ? _rooms : [])
            Write(SimulatedCluster.GroupOf(room), LineBook.NumberOfRoom(room), line);
    });

    /// <summary>The process is replaced: a new buffer, which numbers its batches from 1, under the same node's number.</summary>
    public async Task RestartAsync()
    {
        await _output.DisposeAsync();
        _output = cluster.CreateOutput(node, ++_epoch);
    }

    private void Write(OutputHandle handle, int number, int line)
    {
        if (handle.IsNone)
            return;
        LineBook.Write(_line, number, line);
        _output.Write(handle, _line);
    }

    private void InOneScope(Action write)
    {
        using (_output.BeginBufferingScope())
            write();
    }
}
