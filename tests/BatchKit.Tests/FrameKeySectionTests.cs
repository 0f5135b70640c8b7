using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;

namespace BatchKit.Tests;

/// <summary>Keys that sign frames, in configuration: what can't be a key turns no signing off.</summary>
public sealed class FrameKeySectionTests
{
    private static readonly string Key = Convert.ToBase64String(Some.RandomBytes(FrameSigner.MinKeyBytes));

    private readonly ServiceCollection _services = new();

    [Fact]
    public void One_value_is_the_only_key()
    {
        _services.Configure<OutputBufferOptions>(static options => options.FrameKeys.Add(Some.RandomBytes(FrameSigner.MinKeyBytes)));

        Assert.Equal([Key], Read(("FrameKeys", Key)));
    }

    [Fact]
    public void All_keys_of_a_list_are_read_once_and_in_their_order()
    {
        var other = Convert.ToBase64String(Some.RandomBytes(FrameSigner.MinKeyBytes));

        Assert.Equal([Key, other], Read(("FrameKeys:0", Key), ("FrameKeys:1", other)));
    }

    [Theory]
    [InlineData("FrameKeys:0", null)]
    [InlineData("FrameKeys:0", "")]
    [InlineData("FrameKeys:0", "secret!")]
    [InlineData("FrameKeys:0:Key", "secret")]
    [InlineData("FrameKeys", "secret!")]
    [InlineData("FrameKeys", "")]
    public void What_is_no_key_is_an_error_that_names_the_key_and_shows_no_secret(string key, string? value)
    {
        var exception = Assert.Throws<OptionsValidationException>(() => Read((key, value)));

        Assert.StartsWith($"OutputBufferOptions.{key.Replace(":Key", "", StringComparison.Ordinal).Replace(':', '.')} could not be read: ", exception.Message, StringComparison.Ordinal);
        Assert.EndsWith(" It is set in section 'Game'.", exception.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", exception.Message, StringComparison.Ordinal);
    }

    private IEnumerable<string> Read(params (string Key, string? Value)[] settings)
    {
        var configuration = new ConfigurationBuilder().AddInMemoryCollection(settings.Select(static setting => KeyValuePair.Create($"Game:{setting.Key}", setting.Value))).Build();
        _services.AddBatchKit(configuration.GetSection("Game"));
        using var provider = _services.BuildServiceProvider();
        return provider.GetRequiredService<IOptions<OutputBufferOptions>>().Value.FrameKeys.Select(Convert.ToBase64String);
    }
}
