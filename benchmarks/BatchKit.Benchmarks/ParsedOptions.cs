using System.CommandLine;
using System.CommandLine.Parsing;
using System.Globalization;

namespace BatchKit.Benchmarks;

/// <summary>Options that say what they take when they get something else.</summary>
internal static class ParsedOptions
{
    public static Option<int?> Number(string name, string description, int least, int most) => new(name)
    {
        Description = description,
        HelpName = "number",
        CustomParser = result =>
        {
            if (int.TryParse(TextOf(result), NumberStyles.None, CultureInfo.InvariantCulture, out var value) && value >= least && value <= most)
                return value;
            result.AddError($"{name} must be a number between {least} and {most}.");
            return null;
        },
    };

    public static Option<Uri?> Address(string name, string description, params string[] schemes) => new(name)
    {
        Description = description,
        HelpName = "address",
        CustomParser = result =>
        {
            if (Uri.TryCreate(TextOf(result), UriKind.Absolute, out var address) && schemes.Contains(address.Scheme) && address.Host.Length > 0)
                return address;
            result.AddError($"{name} must be an address as {schemes[0]}://host:port.");
            return null;
        },
    };

    private static string TextOf(ArgumentResult result) => result.Tokens.Count == 1 ? result.Tokens[0].Value : "";
}
