using System.Text;
using BatchKit.Transports;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Tests.Transports;

/// <summary>Generators of what a frame may hold.</summary>
internal static class SomeBatches
{
    // The same objects again and again, as an application keeps them.
    private static readonly MessageHeader?[] KeptHeaders = [new() { Type = "Said", ContentType = "text/plain" }, new() { Type = "Moved" }, new() { Key = "kept" }, new() { IsRetained = true }, new() { ReplyTo = "Said" }];

    /// <summary>One to six batches of one producer, with numbers that rise by any step.</summary>
    public static Gen<MessageBatch[]> OfOneProducer { get; } =
        from node in Gen.Choose(0, OutputHandle.MaxNode)
        from epoch in Longs
        from partition in Gen.Choose(0, 1000)
        from count in Gen.Choose(1, 6)
        from steps in Gen.ArrayOf(Gen.OneOf(Gen.Constant(1L), Gen.Choose(1, int.MaxValue).Select(step => (long)step << 28)), count)
        from contents in Gen.ArrayOf(Contents, count)
        select Number(new ProducerId(node, epoch, partition), steps, contents);

    private static Gen<long> Longs => ArbMap.Default.GeneratorFor<long>();

    // Lone surrogates have no UTF-8, so they are replaced before.
    private static Gen<string> Texts => ArbMap.Default.GeneratorFor<string>().Select(text => Encoding.UTF8.GetString(Encoding.UTF8.GetBytes(text ?? string.Empty)));

    private static Gen<string?> OptionalTexts => Gen.OneOf(Gen.Constant((string?)null), Texts.Select(text => (string?)text));

    private static Gen<OutputHandle> Connections => Longs.Select(number => OutputHandle.Connection((number & long.MaxValue) | 1));

    private static Gen<OutputHandle> Handles => Gen.OneOf(Connections, Texts.Select(text => OutputHandle.Named("n" + text)));

    private static Gen<MessageHeader?> Headers => Gen.Frequency(
        (6, Gen.Constant((MessageHeader?)null)),
        (1, Gen.Elements<MessageHeader?>(MessageHeader.Prompt, MessageHeader.Control)),
        (2, FullHeaders),
        (2, TypedHeaders),
        (2, Gen.Elements(KeptHeaders)));

    // Few values, so that texts and whole headers come again, beside each other and apart.
    private static Gen<MessageHeader?> TypedHeaders =>
        from kind in Gen.Elements(MessageKind.Output, MessageKind.Prompt)
        from type in Gen.Elements(null, "Moved", "Said", new string('T', 255), new string('T', 256), "")
        from contentType in Gen.Elements(null, "application/json", "Moved")
        from name in Gen.Elements(null, "Moved", "trace")
        select new MessageHeader { Kind = kind, Type = type, ContentType = contentType, Properties = name is null ? [] : [new(name, "Said")] };

    private static Gen<MessageHeader?> FullHeaders =>
        from kind in Gen.Elements(MessageKind.Output, MessageKind.Prompt, MessageKind.Control)
        from excluded in Connections.ArrayOf()
        from key in OptionalTexts
        from contentType in OptionalTexts
        from type in OptionalTexts
        from replyTo in OptionalTexts
        from correlation in Gen.Elements<byte[]>([], [0], [1, 2, 3])
        from isRetained in Gen.Elements(true, false)
        from names in Texts.ArrayOf()
        select new MessageHeader
        {
            Kind = kind,
            ExcludedConnections = [.. excluded],
            Key = key,
            ContentType = contentType,
            Type = type,
            ReplyTo = replyTo,
            CorrelationData = [.. correlation],
            IsRetained = isRetained,
            Properties = [.. names.Select(name => new KeyValuePair<string, string>(name, name + "'s value"))],
        };

    private static Gen<BatchMessage> Messages =>
        from length in Gen.Frequency((8, Gen.Choose(0, 40)), (2, Gen.Choose(100, 300)), (1, Gen.Choose(16_000, 17_000)))
        from fill in Gen.Choose(0, 255)
        from header in Headers
        select new BatchMessage(Enumerable.Repeat((byte)fill, length).ToArray(), header);

    // Many empty messages of few kept headers: where headers take more than was measured, this is where it shows.
    private static Gen<BatchMessage[]> EmptyMessages =>
        from header in Gen.Elements(KeptHeaders)
        from repeats in Gen.Choose(1, 300)
        from others in Gen.ArrayOf(Gen.Elements([null, .. KeptHeaders]))
        select ((MessageHeader?[])[.. others, .. Enumerable.Repeat(header, repeats), .. others]).Select(each => new BatchMessage(default, each)).ToArray();

    private static Gen<(OutputHandle Handle, BatchMessage[] Messages)> Contents =>
        from handle in Handles
        from messages in Gen.Frequency((4, Messages.NonEmptyListOf().Select(list => list.ToArray())), (1, EmptyMessages))
        select (handle, messages);

    private static MessageBatch[] Number(ProducerId producer, long[] steps, (OutputHandle Handle, BatchMessage[] Messages)[] contents)
    {
        var number = 0L;
        return [.. contents.Select((content, index) => WithLatest(MessageBatch.Create(content.Handle, producer, number += steps[index], content.Messages)))];
    }

    // Some batches have latest values, in several places.
    private static MessageBatch WithLatest(MessageBatch batch)
    {
        var step = (int)(batch.Number % 5);
        if (step == 0)
            return batch;
        LatestMessage[] latest = [.. Enumerable.Range(0, batch.Count).Where(index => index % step == 0).Select(index => new LatestMessage(index, batch.Number * (index - 1)))];
        batch.AssignLatest(latest, latest.Length);
        return batch;
    }
}
