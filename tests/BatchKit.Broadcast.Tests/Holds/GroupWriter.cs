namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Writes to its share of the groups: mostly a scope over two of them, so that clients in both get one write; at times to everybody, without a scope.</summary>
internal sealed class GroupWriter(IOutputBuffer output, MessageStreams streams, int number)
{
    private const int MessagesInScope = 2;
    private const int EverybodyEvery = 40;

    private readonly Random _random = new(number);
    private int _turn;

    public void Write()
    {
        if (++_turn % EverybodyEvery == 0)
        {
            streams.Write(output, MessageStreams.Everybody, MessageStreams.Groups + number);
            streams.Close(MessageStreams.Groups + number);
            return;
        }

        var (first, second) = (Choose(), Choose());
        using (output.BeginBufferingScope())
        {
            for (var message = 0; message < MessagesInScope; message++)
            {
                streams.Write(output, OutputHandle.Named(MessageStreams.GroupOf(first)), first);
                streams.Write(output, OutputHandle.Named(MessageStreams.GroupOf(second)), second);
            }
        }

        streams.Close(first);
        streams.Close(second);
    }

    private int Choose() => (_random.Next(MessageStreams.Groups / MessageStreams.Writers) * MessageStreams.Writers) + number;
}
