using BatchKit.Transports;

namespace MudServer.Game;

/// <summary>The messages of one connection that arrived together.</summary>
/// <param name="Connection">The connection.</param>
/// <param name="Messages">The messages.</param>
/// <param name="Shard">The shard that they were sent to.</param>
internal sealed record InputBatch(OutputHandle Connection, IReadOnlyList<InputMessage> Messages, int Shard)
{
    public static InputBatch Read(MessageBatch batch, int shard)
    {
        var messages = new List<InputMessage>(batch.Count);
        foreach (var message in batch)
            messages.Add(InputMessage.Read(message));
        return new InputBatch(batch.Handle, messages, shard);
    }
}
