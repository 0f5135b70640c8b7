using BatchKit.Transports;
using Xunit;

namespace BatchKit.Testing.Specification;

/// <summary>The rules that every transport keeps, with its receiver, whatever headers an output buffer's messages have: a header harms no message but its own.</summary>
/// <remarks><see cref="TransportSpecification"/> has them all.</remarks>
public abstract class HeaderSpecification : TransportTest
{
    private static readonly string TooLong = new('x', MessageHeader.MaxTextBytes + 1);

    /// <summary>Headers that a write refuses, each by what is wrong with it.</summary>
    private static (string Fault, MessageHeader Header)[] RefusedHeaders { get; } =
    [
        ("kind", new MessageHeader { Kind = (MessageKind)3 }),
        ("property without a name", new MessageHeader { Properties = [new(null!, "value")] }),
        ("property without a value", new MessageHeader { Properties = [new("name", null!)] }),
        ("key", new MessageHeader { Key = TooLong }),
        ("content type", new MessageHeader { ContentType = TooLong }),
        ("type", new MessageHeader { Type = TooLong }),
        ("reply-to", new MessageHeader { ReplyTo = TooLong }),
        ("property's value", new MessageHeader { Properties = [new("name", TooLong)] }),
        ("correlation data", new MessageHeader { CorrelationData = [.. new byte[MessageHeader.MaxTextBytes + 1]] }),
    ];

    /// <summary>Headers of every kind share a scope with plain messages, and all arrive in order.</summary>
    [Fact]
    public async Task Messages_with_headers_of_every_kind_arrive_in_order()
    {
        var handle = Connection();
        MessageHeader?[] headers =
        [
            null, new MessageHeader(), MessageHeader.Prompt, null, Some.FullHeader(), MessageHeader.Prompt, MessageHeader.Prompt, new MessageHeader { Key = string.Empty },
            new MessageHeader { Properties = [new("same", "1"), new("same", "2")] }, new MessageHeader { ExcludedConnections = [default, Some.Group(), Connection()] },
            new MessageHeader { ExcludedConnections = default, Properties = default, CorrelationData = default }, new MessageHeader { Key = new string('k', 1000) }, null,
        ];

        await WriteInScopeAsync(handle, headers.Length, index => headers[index]);

        AssertArrived(Numbers(1, headers.Length), Collected.TextsFor(handle));
    }

    /// <summary>Many small messages whose headers are much larger than they are arrive in order: headers count where batches and frames are limited.</summary>
    [Fact]
    public async Task Small_messages_with_large_headers_arrive()
    {
        const int messages = 2000;
        var handle = Connection();

        await WriteInScopeAsync(handle, messages, static index => new MessageHeader { Key = $"{index,140}" });

        AssertArrived(Numbers(1, messages), Collected.TextsFor(handle));
    }

    /// <summary>A latest value without a header takes the place of one that had the only header of its batch; it arrives, and what other handles wrote around it.</summary>
    [Fact]
    public async Task Messages_of_which_none_has_a_header_any_more_arrive()
    {
        var (handle, before, behind) = (Connection(), Connection(), Connection());
        await using var output = Output();

        using (output.BeginBufferingScope())
        {
            output.Write(before, "before");
            output.WriteLatest(handle, key: 1, "old", new MessageHeader { Type = "position" });
            output.WriteLatest(handle, key: 1, "new");
            output.Write(behind, "behind");
        }

        await output.FlushAsync().AsTask().WithinDeadline();
        await Collected.WaitForMessagesAsync(3);
        AssertArrived(["new"], Collected.TextsFor(handle));
        AssertArrived(["before"], Collected.TextsFor(before));
        AssertArrived(["behind"], Collected.TextsFor(behind));
    }

    /// <summary>A write with a header that no transport can send throws <see cref="ArgumentException"/>; what other handles write in the same scope arrives.</summary>
    [Fact]
    public async Task A_header_that_can_not_be_sent_is_refused_at_its_write_and_its_neighbours_arrive()
    {
        var (handle, other) = (Connection(), Connection());
        await using var output = Output();

        using (output.BeginBufferingScope())
        {
            foreach (var (fault, header) in RefusedHeaders)
            {
                output.Write(other, $"before {fault}");
                Assert.Throws<ArgumentException>(() => output.Write(handle, "refused", header));
                output.Write(handle, $"behind {fault}");
            }
        }

        await output.FlushAsync().AsTask().WithinDeadline();
        await Collected.WaitForMessagesAsync(handle, RefusedHeaders.Length);
        await Collected.WaitForMessagesAsync(other, RefusedHeaders.Length);

        AssertArrived([.. RefusedHeaders.Select(static refused => $"behind {refused.Fault}")], Collected.TextsFor(handle));
        AssertArrived([.. RefusedHeaders.Select(static refused => $"before {refused.Fault}")], Collected.TextsFor(other));
        Assert.Equal(0, output.GetStatistics().FailedMessages);
    }

    private async Task WriteInScopeAsync(OutputHandle handle, int messages, Func<int, MessageHeader?> headerOf)
    {
        await using var output = Output();
        using (output.BeginBufferingScope(handle))
        {
            for (var index = 0; index < messages; index++)
                output.Write(handle, Some.Bytes($"{index + 1}"), headerOf(index));
        }

        await output.FlushAsync().AsTask().WithinDeadline();
        await Collected.WaitForMessagesAsync(handle, messages);
        Assert.Equal(0, output.GetStatistics().FailedMessages);
    }

    private OutputBuffer Output() => new(Harness.Transport, Fitting());
}
