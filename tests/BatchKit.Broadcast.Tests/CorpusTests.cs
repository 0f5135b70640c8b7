using BatchKit.Fuzz;

namespace BatchKit.Broadcast.Tests;

/// <summary>The inputs that the fuzzer starts from, and those that once broke a parser, for the parsers of all packages.</summary>
public sealed class CorpusTests
{
    public static TheoryData<string> Targets => [.. FuzzTarget.Names];

    [Theory]
    [MemberData(nameof(Targets))]
    public void Each_input_of_the_corpus_is_read_or_refused(string target)
    {
        var files = FuzzTarget.FindCorpus(target);

        Assert.NotEmpty(files);
        Assert.All(files, file => FuzzTarget.Run(target, File.ReadAllBytes(file)));
    }

    [Theory]
    [MemberData(nameof(Targets))]
    public void Each_input_of_the_corpus_may_end_at_any_byte(string target)
    {
        foreach (var input in FuzzTarget.FindCorpus(target).Select(File.ReadAllBytes))
        {
            for (var length = 0; length < input.Length; length++)
                FuzzTarget.Run(target, input[..length]);
        }
    }
}
