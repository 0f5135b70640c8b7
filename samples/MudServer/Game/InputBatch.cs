using BatchKit.Transports;

namespace MudServer.Game;

/// <summary>The messages of one connection that arrived together.</summary>
internal sealed record InputBatch(OutputHandle Connection, IReadOnlyList<InputMessage> Messages)
{
    public static InputBatch Read(MessageBatch batch)
    {
        var messages = new List<InputMessage>(batch.Count);
        foreach (var message in batch)
            messages.Add(InputMessage.Read(message));
        return new InputBatch(batch.Handle, messages);
    }
}
